"""What README and the guide to methods claim is what the records of the results say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A part of the claim, the records, and the system, metric and domain that it names.
CLAIMS = [
    (
        "README.md",
        "| base model, trained further (control) | no | {:.1f} |",
        "quickstart",
        "mix-continued",
        "chrF",
        "AVG",
    ),
    ("README.md", "| plain adapters (AD) | yes | {:.1f} |", "quickstart", "ad-oracle", "chrF", "AVG"),
    ("README.md", "| gated adapters (GAD) | no | {:.1f} |", "quickstart", "gad", "chrF", "AVG"),
    ("README.md", "one model for each domain | yes | {:.1f} |", "quickstart", "ft", "chrF", "AVG"),
    (
        "README.md",
        "{:.1f} chrF ahead of it [where",
        "en-pl-paper",
        "gad-paper",
        "chrF over ad-classifier",
        "misclassified",
    ),
    (
        "docs/choosing.md",
        "{:.1f} chrF ahead of it where",
        "en-pl-paper",
        "gad-paper",
        "chrF over ad-classifier",
        "misclassified",
    ),
    ("docs/choosing.md", "shown there: {:.2f} chrF", "en-pl-paper", "gad-paper", "chrF over mix", "AVG"),
    ("docs/choosing.md", "their parameters | {:.1f};", "mono-small", "single", "perplexity, tree induced", "average"),
    ("docs/choosing.md", "induced tree {:.1f},", "mono-small", "induced", "perplexity, tree induced", "average"),
    ("docs/choosing.md", "adapter for all {:.1f}, base", "mono-small", "multi", "perplexity, tree induced", "average"),
    (
        "docs/choosing.md",
        "rises from 88.2 to {:.0f}",
        "reviews-small",
        "fine-tuned-products",
        "on the base’s text",
        "reviews_products",
    ),
    (
        "docs/choosing.md",
        "| {:.1f}; base 637.4",
        "reviews-small",
        "topics-10-frozen-products",
        "perplexity",
        "reviews_products",
    ),
]


@pytest.mark.parametrize(("page", "claim", "records", "system", "metric", "domain"), CLAIMS)
def test_a_claim_is_what_was_measured(
    page: str, claim: str, records: str, system: str, metric: str, domain: str
) -> None:
    lines = (ROOT / "docs" / "results" / f"{records}.jsonl").read_text(encoding="utf-8").splitlines()
    found = {(each["system"], each["metric"], each.get("domain", "")): each["value"] for each in map(json.loads, lines)}
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert claim.format(found[system, metric, domain]) in text
