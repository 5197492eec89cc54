"""Results that README and docs/choosing.md give are in the records of their pages."""

import json
import re
from functools import cache

import pytest

from tests.documents.blocks import ROOT

# By page, text with {} for each number: its records, and the system, metric and domain of each number. One more name is
# another field of the record; three more are another record, which is subtracted.
Measured = tuple[str, ...]
CLAIMS: dict[str, list[tuple[str, str, list[Measured]]]] = {
    "README.md": [
        (
            "the base has {:.1f}, GAD {:.1f}, AD {:.1f} and MIX {:.1f}",
            "quickstart-seeds",
            [(name, "chrF", "AVG") for name in ("base", "gad", "ad-oracle", "mix")],
        ),
        ("model from {:.1f} to {:.1f} chrF", "quickstart", [("base", "chrF", "AVG"), ("gad", "chrF", "AVG")]),
        (
            "loses {:.1f} chrF on other text",
            "quickstart",
            [("base", "chrF", "general text", "mix", "chrF", "general text")],
        ),
        (
            "model | no | {:.1f} | {:.1f} |",
            "quickstart",
            [("base", "chrF", place) for place in ("AVG", "general text")],
        ),
        ("(GAD) | no | {:.1f} | {:.1f} |", "quickstart", [("gad", "chrF", place) for place in ("AVG", "general text")]),
        (
            "general text | {:.1f} | {:.1f} |",
            "quickstart",
            [("ad-oracle", "chrF", "AVG"), ("base", "chrF", "general text")],
        ),
        (
            "the six | no | {:.1f} | {:.1f} |",
            "quickstart",
            [("ad-classifier", "chrF", place) for place in ("AVG", "general text")],
        ),
        ("(MIX) | no | {:.1f} | {:.1f} |", "quickstart", [("mix", "chrF", place) for place in ("AVG", "general text")]),
        (
            "so GAD's {:.1f} there may be as much as {:.1f} or as little as {:+.1f}",
            "quickstart",
            [("gad", "chrF over base", "general text", field) for field in ("value", "low", "high")],
        ),
        (
            "they lose {:.1f} chrF on FLORES and news, where gates without it lose {:.1f} and a classifier that knows "
            "general text {:.1f}; adapters gain only {:.1f}",
            "en-pt-paper",
            [
                *(
                    ("base", "chrF", "general text", name, "chrF", "general text")
                    for name in ("gad-base", "gad", "ad-classifier")
                ),
                ("ad-oracle", "chrF over base", "AVG"),
            ],
        ),
    ],
    "docs/choosing.md": [
        (
            "level with it ({:.1f} and {:.1f} chrF, three seeds). Only fine-tuned models are better, by {:.1f}",
            "products-small",
            [
                ("gad", "chrF", "AVG"),
                ("mix-continued", "chrF", "AVG"),
                ("ft", "chrF", "AVG", "mix-continued", "chrF", "AVG"),
            ],
        ),
        (
            "gain {:.1f} chrF on six products if told the product, {:.1f} with a classifier in front, and {:.1f} with",
            "quickstart",
            [(name, "chrF over base", "AVG") for name in ("ad-oracle", "ad-classifier", "gad")],
        ),
        (
            "the classifier loses {:.1f}, gates {:.1f} (",
            "quickstart",
            [("base", "chrF", "general text", name, "chrF", "general text") for name in ("ad-classifier", "gad")],
        ),
        (
            "{:.1f} to {:+.1f}), and training",
            "quickstart",
            [("gad", "chrF over base", "general text", side) for side in ("low", "high")],
        ),
        (
            "which gains {:.1f}, loses {:.1f} (one seed)",
            "quickstart",
            [("mix", "chrF over base", "AVG"), ("base", "chrF", "general text", "mix", "chrF", "general text")],
        ),
        ("it is {:.1f}. **What", "en-pt-paper", [("ad-oracle", "chrF over base", "AVG")]),
        (
            "loses {:.1f} chrF on general text; without it {:.1f}, a classifier with a class `base` {:.1f}",
            "en-pt-paper",
            [
                ("base", "chrF", "general text", name, "chrF", "general text")
                for name in ("gad-base", "gad", "ad-classifier")
            ],
        ),
        (
            "Adapters on that base gain {:.1f} to {:.1f}",
            "en-pl-small",
            [("gad", "chrF", "AVG", "mix", "chrF", "AVG"), ("ad-oracle", "chrF", "AVG", "mix", "chrF", "AVG")],
        ),
        (
            "three measurements: {:+.1f} chrF ({:.1f} to {:.1f}; one seed",
            "en-pl-paper",
            [
                ("gad-paper", "chrF over ad-classifier", "classifier errors", field)
                for field in ("value", "low", "high")
            ],
        ),
        ("{:+.2f} (one seed, [German", "de-en", [("gad-paper", "chrF over ad-classifier", "classifier errors")]),
        (
            "ahead of the classifier by {:.2f} and uniform weights by {:.2f}",
            "en-pl-paper",
            [(name, "chrF over ad-classifier", "classifier errors") for name in ("mix", "ad-even")],
        ),
        (
            "Over MIX trained as long they gain {:.2f} ({:.2f} to {:.2f})",
            "en-pl-paper",
            [("gad-paper", "chrF over mix-continued", "AVG", field) for field in ("value", "low", "high")],
        ),
        (
            "on products by {:.1f} chrF",
            "products",
            [("gad", "chrF", "classifier errors", "ad-classifier", "chrF", "classifier errors")],
        ),
        (
            "uniform weights by {:.1f}. On all",
            "products",
            [("ad-even", "chrF", "classifier errors", "ad-classifier", "chrF", "classifier errors")],
        ),
        (
            "{:.1f}; induced tree {:.1f}, one adapter for all {:.1f}, base {:.1f} ([17",
            "mono-small",
            [(name, "perplexity, tree induced", "average") for name in ("single", "induced", "multi", "base")],
        ),
        (
            "{:.1f}; one path {:.1f}, one adapter for all {:.1f}, base {:.1f}.",
            "mono-small",
            [
                (name, "perplexity on unseen domains, tree induced", "average")
                for name in ("induced: 2 paths", "induced: 1 path", "multi", "base")
            ],
        ),
        (
            "{:.1f}, one path {:.1f} ([smaller",
            "mono-little",
            [
                (name, "perplexity on unseen domains", "average")
                for name in ("induced: 2 paths, uniform", "induced: 1 path")
            ],
        ),
        (
            "{:.1f}; base {:.1f}, fine-tuning {:.1f} ([reviews",
            "reviews-small",
            [
                (name, "perplexity", "reviews_products")
                for name in ("topics-10-frozen-products", "base", "fine-tuned-products")
            ],
        ),
        ("fine-tuning | {:.1f}; on", "reviews-small", [("fine-tuned-products", "perplexity", "reviews_products")]),
        (
            "rises from {:.1f} to {:.0f}",
            "reviews-small",
            [
                ("base", "on the base’s text", "reviews_products"),
                ("fine-tuned-products", "on the base’s text", "reviews_products"),
            ],
        ),
        ("5-grams {:.1f} (", "ptb-small", [("kneser-ney", "test perplexity", "")]),
        (
            "is {:.1f} BLEU and {:.1f} chrF above the first",
            "products-small-reranking",
            [("dagru", metric, "all", "first-best", metric, "all") for metric in ("BLEU", "chrF")],
        ),
        (
            "It has {:.1f} BLEU; a beam of four has {:.1f}",
            "products-small-reranking",
            [(name, "BLEU", "all") for name in ("dagru", "gad")],
        ),
        (
            "they are behind: {:.1f} and {:.1f} %",
            "classification-small",
            [(name, "test accuracy", "average") for name in ("adapters-64", "full")],
        ),
        ("fine-tuning: {:.1f}", "minilm", [("adapters-64", "test accuracy", "average")]),
        ("and {:.1f}", "minilm", [("full", "test accuracy", "average")]),
    ],
}
# Numbers that are no results, and results without a record; the text says so, or the page that it links.
OTHERS = {
    "README.md": [r"Python 3\.\d+( to 3\.\d+)?"],
    "docs/choosing.md": [
        r"p < 0\.05",
        r"up to 0\.5 chrF better",
        r"takes MIX from 32\.4 to 47\.1",
        r"−0\.25 \(three seeds on an earlier base,",
        r"\(95 % interval 0\.7 to 2\.9\)",
        r"learning\s+rate of 0\.003",
        r"with 0\.001\.",
        r"four million|\(4\.6 %\)",
        r"at 0\.91 of the speed",
        r"97\.1, standard model 98\.8",
        r"± 0\.\d",
        r"at 3\.3 % of",
    ],
}
NUMBER = re.compile(r"[+−]?\d[\d,]*\.\d+")


@cache
def records(name: str) -> dict[Measured, dict[str, float]]:
    lines = (ROOT / f"docs/results/{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return {(each["system"], each["metric"], each.get("domain", "")): each for each in map(json.loads, lines)}


def value(name: str, measured: Measured) -> float:
    key, rest = measured[:3], measured[3:]
    found = records(name)[key]
    return found["value"] - records(name)[rest]["value"] if len(rest) == 3 else found[rest[0] if rest else "value"]


def written(template: str, name: str, measured: list[Measured]) -> str:
    """Fill in the numbers; text that names the direction leaves out the sign."""
    values = iter(value(name, each) for each in measured)

    def fill(match: re.Match[str]) -> str:
        return format(next(values), match[1]).replace("-", "−")

    return re.sub(r"\{:([^}]*)\}", fill, template)


def text_of(page: str) -> str:
    """Return the text of a page without code, tables made of records, and addresses of links."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for part in (r"```.*?```", r"<!-- (?:table|figure) .*?<!-- end -->", r"(?<=\])\([^)]*\)", r"<!--.*?-->"):
        text = re.sub(part, "", text, flags=re.DOTALL)
    return " ".join(text.split())


@pytest.mark.parametrize(("page", "claim"), [(page, claim) for page, claims in CLAIMS.items() for claim in claims])
def test_a_claim_is_what_was_measured(page: str, claim: tuple[str, str, list[Measured]]) -> None:
    assert written(*claim) in text_of(page)


@pytest.mark.parametrize("page", CLAIMS)
def test_every_number_is_a_claim_with_a_record(page: str) -> None:
    text = text_of(page)
    for claim in CLAIMS[page]:
        text = text.replace(written(*claim), "")
    for pattern in OTHERS[page]:
        assert re.search(pattern, text)
        text = re.sub(pattern, "", text)
    assert NUMBER.findall(text) == []
