"""Held-out stretches: exact sizes, whole passages, and no line in two sets."""

from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.folded_text import fold
from fairseq_ext.text.line_split import LanguageModelSplit, write_text_splits
from fairseq_ext.text.split import SIZES_FILE, SPLITS
from fairseq_ext.text.text_files import read_lines
from tests.text.small_texts import SEEN, lines_of

OPTIONS = LanguageModelSplit(valid=15, test=20, stretch=10)
Splits = dict[str, dict[str, list[str]]]


def split(folder: Path, texts: dict[str, list[str]], seed: int = 1) -> Splits:
    (folder / "splits").mkdir(parents=True)
    files = {name: folder / f"{name}.txt" for name in texts}
    for name, lines in texts.items():
        files[name].write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_text_splits(folder / "splits", files, options=OPTIONS, seed=seed)
    return {name: {role: read_lines(folder / "splits" / name / f"{role}.txt") for role in SPLITS} for name in texts}


def unlike(name: str) -> list[str]:
    """Lines that no other domain has."""
    return [f"{name} {line}" for line in lines_of("bank")]


def test_held_out_lines_are_consecutive(tmp_path: Path) -> None:
    text = unlike("a")
    sets = split(tmp_path, {"a": text})["a"]
    places = {role: [text.index(line) for line in sets[role]] for role in ("valid", "test")}
    starts = {role: [place for place in numbers if place % 10 == 0] for role, numbers in places.items()}
    assert len(starts["test"]) == len(starts["valid"]) == 2
    assert places["test"] == [start + step for start in starts["test"] for step in range(10)]
    # The second stretch of fifteen lines has five; which of the two comes first in the text is chance.
    lengths = [sum(start <= place < start + 10 for place in places["valid"]) for start in starts["valid"]]
    assert sorted(lengths) == [5, 10]


def test_lines_that_something_else_is_tested_on_are_in_no_set(tmp_path: Path) -> None:
    """Also where there is no test set to report on."""
    text = unlike("a")
    (tmp_path / "a.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
    options = LanguageModelSplit(valid=15, test=0, stretch=10)
    elsewhere = {fold(line) for line in text[:40]}
    write_text_splits(tmp_path, {"a": tmp_path / "a.txt"}, options=options, seed=1, elsewhere=elsewhere)
    kept = [line for role in ("train", "valid") for line in read_lines(tmp_path / "a" / f"{role}.txt")]
    assert sorted(kept) == sorted(text[40:])
    assert (tmp_path / "a" / "test.txt").read_bytes() == b""


@pytest.mark.parametrize("seed", range(2))
def test_no_line_is_in_two_sets_of_any_domains(tmp_path: Path, seed: int) -> None:
    disguises = {"bank": str.upper, "garden": str.lower, "school": lambda line: f"\u200b{line}  "}
    texts = {name: [disguises[name](line) for line in lines_of(name)] for name in SEEN}
    splits = split(tmp_path, texts, seed)
    keys = {role: {fold(line) for sets in splits.values() for line in sets[role]} for role in SPLITS}
    assert not keys["train"] & keys["valid"]
    assert not keys["train"] & keys["test"]
    assert not keys["valid"] & keys["test"]
    assert keys["train"] | keys["valid"] | keys["test"] == {fold(line) for text in texts.values() for line in text}
    assert all(len(sets["test"]) == 20 for sets in splits.values())
    for row in read_lines(tmp_path / "splits" / SIZES_FILE)[1:]:
        name, *counts = row.split()
        assert [int(count) for count in counts[:3]] == [len(splits[name][role]) for role in SPLITS]
        assert sum(map(int, counts)) == 200


def test_too_small_domains_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="small: 39 lines "):
        split(tmp_path / "small", {"large": unlike("a"), "small": unlike("b")[:39]})
    sets = split(tmp_path / "fits", {"large": unlike("a"), "small": unlike("b")[:40]})["small"]
    assert [len(sets[role]) for role in SPLITS] == [5, 15, 20]
    with pytest.raises(InputError, match=r"same: has no lines for train"):
        split(tmp_path / "same", {"same": ["the same line"] * 100})
