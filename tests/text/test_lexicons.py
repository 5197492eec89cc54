"""What a lexicon is counted to be, by hand, and files of lexicons."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text import lexicons
from fairseq_ext.text.lexicons import Lexicon, copies_of, count_lexicon, read_lexicons, write_lexicons

NO_COPIES = np.full(10, -1)
# Source piece 4 is 5 in the target, 6 is 7; target piece 9 occurs everywhere.
PAIRS = [(np.array(source), np.array(target)) for source, target in [([4, 6], [9, 7, 5]), ([4], [5, 9]), ([6], [7, 9])]]


def links(lexicon: Lexicon) -> set[tuple[int, int]]:
    return {*zip(*(each.tolist() for each in lexicon.links()), strict=True)}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One frequent piece, and no pieces but those that are needed."""
    monkeypatch.setattr(lexicons, "_FREQUENT", 1)
    monkeypatch.setattr(lexicons, "_BEST", 0)


@pytest.mark.usefixtures("few")
def test_each_piece_is_linked_to_that_with_which_it_occurs_most(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = count_lexicon(PAIRS, NO_COPIES)
    assert (links(whole), whole.always.tolist()) == ({(4, 5), (6, 7)}, [9])
    for pieces, targets in (([6, 8], [7, 9]), ([5], [9])):
        assert sorted(whole.targets_of(np.array(pieces)).tolist()) == targets
    monkeypatch.setattr(lexicons, "_CHUNK", 1)
    assert links(count_lexicon(PAIRS, NO_COPIES)) == links(whole)


@pytest.mark.usefixtures("few")
def test_what_is_known_or_copied_is_not_linked_again() -> None:
    known = Lexicon.of_links(np.array([4, 6, 6]), np.array([5, 3, 8]), np.array([], int))
    assert links(count_lexicon(PAIRS, NO_COPIES, known)) == {(6, 7)}
    assert links(count_lexicon(PAIRS, NO_COPIES, replace(known, always=np.array([7])))) == set()
    copies = copies_of(list("____a_b___"), list("_____b_a__"))
    assert (copies[4], copies[6]) == (7, 5)
    assert links(count_lexicon(PAIRS, copies)) == {(4, 5), (6, 7)}
    # Alone, each piece is missing; together, the other's copy is there.
    assert links(count_lexicon([(np.array([4, 6]), np.array([7, 5]))], copies)) == set()


def test_with_it_every_training_pair_is_available() -> None:
    generator = np.random.default_rng(1)
    pairs = [(generator.integers(4, 300, 9), generator.integers(4, 300, 7)) for _ in range(200)]
    known = count_lexicon(pairs[:50], np.full(300, -1))
    own = count_lexicon(pairs, np.full(300, -1), known)
    for source, target in pairs:
        assert {*target} <= {*known.targets_of(np.unique(source)), *own.targets_of(np.unique(source))}
    assert not links(own) & links(known)


def test_the_best_pieces_are_there_for_other_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicons, "_FREQUENT", 0)
    monkeypatch.setattr(lexicons, "_BEST", 1)
    pairs = [*PAIRS, *PAIRS, (np.array([4]), np.array([8]))]
    # 5 and 7 are the best of 4 and 6; the others are needed.
    assert links(count_lexicon(pairs, NO_COPIES)) == {(4, 5), (6, 7), (4, 9), (6, 9), (4, 8)}
    once = [(np.array([6, 4, 8]), np.array([7, 3])), (np.array([4]), np.array([3])), (np.array([8]), np.array([3]))]
    assert links(count_lexicon(once, NO_COPIES)) == {(6, 7), (4, 3), (8, 3)}


def test_lexicons_are_written_and_read(tmp_path: Path) -> None:
    lexicon = count_lexicon(PAIRS, NO_COPIES)
    write_lexicons(tmp_path / "shortlist.npz", {"base": lexicon, "law": lexicon})
    found = read_lexicons(tmp_path / "shortlist.npz", (10, 10), "do it again")
    assert [*found] == ["base", "law"]
    assert links(found["law"]) == links(lexicon)


DAMAGES: list[tuple[str, Any]] = [
    ("sources", np.array([4, 60])),
    ("targets", np.array([5, -7])),
    ("always", np.array([10])),
    ("always", np.array([1.5])),
    ("starts", np.array([0, 2, 1])),
    ("starts", np.array([0, 1])),
    ("starts", np.array([1, 1, 2])),
]


@pytest.mark.parametrize(("part", "value"), DAMAGES)
@pytest.mark.usefixtures("few")
def test_what_does_not_fit_is_one_line(tmp_path: Path, part: str, value: np.ndarray) -> None:
    lexicon = replace(count_lexicon(PAIRS, NO_COPIES), **{part: value})
    write_lexicons(tmp_path / "shortlist.npz", {"law": lexicon})
    with pytest.raises(InputError, match=r"shortlist.npz: law: does not fit the dictionaries; do it again"):
        read_lexicons(tmp_path / "shortlist.npz", (10, 10), "do it again")


def test_a_file_without_lexicons_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "shortlist.npz"
    for arrays in ({}, {"names": np.array([1])}, {"names": np.array(["law"])}):
        np.savez(path, **arrays)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"shortlist.npz: .*; do it again"):
            read_lexicons(path, (10, 10), "do it again")
