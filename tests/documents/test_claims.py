"""What README and the guide to methods claim is what the records of the results say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# By page and records: a part of the claim, and the system, metric and domain that it names.
CLAIMS = {
    ("README.md", "quickstart"): [
        ("| base model, trained further (control) | no | {:.1f} |", "mix-continued", "chrF", "AVG"),
        ("| plain adapters (AD) | yes | {:.1f} |", "ad-oracle", "chrF", "AVG"),
        ("| gated adapters (GAD) | no | {:.1f} |", "gad", "chrF", "AVG"),
        ("one model for each domain | yes | {:.1f} |", "ft", "chrF", "AVG"),
    ],
    ("README.md", "en-pl-paper"): [
        ("{:.1f} chrF ahead of it [where", "gad-paper", "chrF over ad-classifier", "misclassified"),
    ],
    ("docs/choosing.md", "en-pl-paper"): [
        ("{:.1f} chrF ahead of it where", "gad-paper", "chrF over ad-classifier", "misclassified"),
        ("shown there: {:.2f} chrF", "gad-paper", "chrF over mix", "AVG"),
    ],
    ("docs/choosing.md", "mono-small"): [
        ("their parameters | {:.1f};", "single", "perplexity, tree induced", "average"),
        ("induced tree {:.1f},", "induced", "perplexity, tree induced", "average"),
        ("adapter for all {:.1f}, base", "multi", "perplexity, tree induced", "average"),
    ],
    ("docs/choosing.md", "reviews-small"): [
        ("rises from 88.2 to {:.0f}", "fine-tuned-products", "on the base’s text", "reviews_products"),
        ("| {:.1f}; base 637.4", "topics-10-frozen-products", "perplexity", "reviews_products"),
    ],
}


@pytest.mark.parametrize(("page", "records"), CLAIMS)
def test_claims_are_what_was_measured(page: str, records: str) -> None:
    lines = (ROOT / "docs" / "results" / f"{records}.jsonl").read_text(encoding="utf-8").splitlines()
    found = {(each["system"], each["metric"], each.get("domain", "")): each["value"] for each in map(json.loads, lines)}
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    for claim, *measured in CLAIMS[page, records]:
        assert claim.format(found[tuple(measured)]) in text
