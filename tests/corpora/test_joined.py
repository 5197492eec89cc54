"""Sentences of two domains, joined."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.corpora.joined import draw_pairs
from fairseq_ext.inputs.errors import InputError

DOMAINS = ["law", "med"]


@pytest.fixture
def splits(tmp_path: Path) -> Path:
    folder = tmp_path / "splits"
    for name in DOMAINS:
        (folder / name).mkdir(parents=True)
        for lang in ("en", "de"):
            lines = [" ".join([f"{name}{lang}{number}"] * (number + 1)) for number in range(10)]
            (folder / name / f"test.{lang}").write_text("\n".join(lines) + "\n")
    (folder / "domains.txt").write_text("law\nmed\n")
    return folder


def test_two_domains_both_sides_and_short_enough(splits: Path) -> None:
    pairs = draw_pairs(splits, ("en", "de"), 20, 12, seed=1)
    assert len({pair.texts for pair in pairs}) == 20
    assert {pair.domains for pair in pairs} == {("law", "med"), ("med", "law")}
    for pair in pairs:
        source, target = (text.split() for text in pair.texts)
        assert len(source) <= 12
        assert source[0].startswith(f"{pair.domains[0]}en")
        assert source[-1].startswith(f"{pair.domains[1]}en")
        assert [word.replace("en", "de") for word in source] == target
    assert draw_pairs(splits, ("en", "de"), 20, 12, seed=1) == pairs != draw_pairs(splits, ("en", "de"), 20, 12, seed=2)


def test_more_than_there_are_is_refused(splits: Path) -> None:
    with pytest.raises(InputError, match="domain_switch: 5 are more than the test sets give, which have 2 of 4 words"):
        draw_pairs(splits, ("en", "de"), 5, 8, seed=1)
