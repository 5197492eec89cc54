"""Repetitions: the first of equal pairs stays, however the corpus is cut and bucketed."""

from __future__ import annotations

import random
import unicodedata

import numpy as np
import pytest

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.deduplicate import find_repeats, fold, pair_keys

PAIRS = [
    Pair("A dog", "Pies"),
    Pair("a  DOG", "pies"),
    Pair("A dog", "Psy"),
    Pair("A dog 2", "Pies"),
    Pair("Straße", "ﬁn"),
    Pair("STRASSE", "fin"),
]


@pytest.mark.parametrize(("by", "expected"), [("pair", [1, 5]), ("source", [1, 2, 5]), ("target", [1, 3, 5])])
def test_what_repeats_follows_the_sides_compared(by: str, expected: list[int]) -> None:
    assert np.flatnonzero(find_repeats([pair_keys(PAIRS, by)])).tolist() == expected


def test_sides_do_not_run_together() -> None:
    keys = pair_keys([Pair("a b", "c"), Pair("a", "b c")], "pair")
    assert not find_repeats([keys]).any()


def test_cuts_and_buckets_do_not_matter() -> None:
    generator = random.Random(7)
    pairs = [Pair(str(generator.randrange(300)), "x") for _ in range(1000)]
    expected = [pair in pairs[:index] for index, pair in enumerate(pairs)]
    keys = pair_keys(pairs, "pair")
    for cuts in ([], [1], [0, 500, 500, 999]):
        for bucket_pairs in (2_000_000, 400, 13):
            assert find_repeats(np.split(keys, cuts), bucket_pairs).tolist() == expected


def test_equal_halves_of_keys_are_not_equal_keys() -> None:
    keys = np.array([[5, 1], [5, 2], [5, 1], [6, 1]], dtype=np.uint64)
    assert find_repeats([keys]).tolist() == [False, False, True, False]


def test_no_pairs() -> None:
    assert find_repeats([pair_keys([], "pair")]).tolist() == []
    assert find_repeats([]).tolist() == []


def test_ascii_shortcut_folds_like_unicode() -> None:
    for code in range(128):
        text = f"A{chr(code)}B"
        plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        assert fold(text) == " ".join(plain.split())
