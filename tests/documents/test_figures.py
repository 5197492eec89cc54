"""Results that README and docs/choosing.md give are in the records of their pages."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from tests.documents.blocks import ROOT

# Fields of claims.jsonl: page, text with {} for each number, records, and the system, metric and domain of each number.
# One more name is another field of the record; three more are another record, which is subtracted.
Claim = tuple[str, str, str, list[list[str]]]
CLAIMS: list[Claim] = [json.loads(line) for line in Path(__file__).with_name("claims.jsonl").open(encoding="utf-8")]
# Numbers that are no results, and results without a record; the text says so, or the page that it links.
OTHERS = {
    "README.md": [r"Python 3\.\d+( to 3\.\d+)?"],
    "docs/choosing.md": [
        r"p < 0\.05",
        r"up to 0\.5 chrF better",
        r"takes MIX from 32\.4 to 47\.1",
        r"−0\.25 \(three seeds on an earlier base,",
        r"\(0\.7 to 2\.9\)",
        r"learning\s+rate of 0\.003",
        r"with 0\.001\.",
        r"four million|\(4\.6 %\)",
        r"at 0\.91 of the speed",
        r"± 0\.\d",
        r"at 3\.3 % of",
    ],
}
NUMBER = re.compile(r"[+−]?\d[\d,]*\.\d+")


@cache
def records(name: str) -> dict[tuple[str, ...], dict[str, float]]:
    lines = (ROOT / f"docs/results/{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return {(each["system"], each["metric"], each.get("domain", "")): each for each in map(json.loads, lines)}


def value(name: str, measured: list[str]) -> float:
    key, rest = tuple(measured[:3]), tuple(measured[3:])
    found = records(name)[key]
    return found["value"] - records(name)[rest]["value"] if len(rest) == 3 else found[rest[0] if rest else "value"]


def written(_page: str, template: str, name: str, measured: list[list[str]]) -> str:
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


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim[1])
def test_a_claim_is_what_was_measured(claim: Claim) -> None:
    assert written(*claim) in text_of(claim[0])


@pytest.mark.parametrize("page", OTHERS)
def test_every_number_is_a_claim_with_a_record(page: str) -> None:
    text = text_of(page)
    for claim in CLAIMS:
        if claim[0] == page:
            text = text.replace(written(*claim), "")
    for pattern in OTHERS[page]:
        assert re.search(pattern, text)
        text = re.sub(pattern, "", text)
    assert NUMBER.findall(text) == []
