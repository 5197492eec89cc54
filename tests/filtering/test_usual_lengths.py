"""Lengths are judged by the pairs that were learned from, of like length and in each direction."""

import math
import random
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.usual_lengths import EDGES, UsualLengths, count_characters, learn_lengths, load_lengths


def learned(folder: Path, pairs: list[Pair]) -> UsualLengths:
    learn_lengths(pairs, folder / "lengths.json")
    load_lengths.cache_clear()
    return load_lengths(str(folder / "lengths.json"))


def drawn(count: int, length: int, low: float, high: float) -> list[Pair]:
    """Pairs whose log-ratio has these deviations below and above log 1.2; all different."""
    rng = random.Random(1)
    pairs = []
    for number in range(count):
        value = rng.gauss(0, 1)
        ratio = 1.2 * math.exp(value * (low if value < 0 else high))
        source = round(2 * length / (1 + ratio))
        pairs.append(Pair(f"{number:06d}".ljust(source, "a"), "b" * (2 * length - source)))
    return pairs


def test_median_and_deviations_of_each_direction_are_found(tmp_path: Path) -> None:
    usual = learned(tmp_path, drawn(20_000, 150, low=0.16, high=0.32))
    row = int(np.searchsorted(EDGES, 150, side="right"))
    assert usual.median[row] == pytest.approx(math.log(1.2), abs=0.01)
    assert usual.shorter[row] == pytest.approx(0.16, abs=0.01)
    assert usual.longer[row] == pytest.approx(0.32, abs=0.01)


@pytest.mark.slow
def test_a_twentieth_of_noise_in_each_direction_matters_little(tmp_path: Path) -> None:
    pairs = drawn(20_000, 150, low=0.2, high=0.2)
    spoilt = [
        Pair(one, other[: len(other) // 2]) if n % 25 == 0 else Pair(one, other) for n, (one, other) in enumerate(pairs)
    ]
    usual = learned(tmp_path, spoilt)
    row = int(np.searchsorted(EDGES, 150, side="right"))
    assert usual.shorter[row] < 0.3


def test_classes_with_no_pairs_have_usual_deviations(tmp_path: Path) -> None:
    usual = learned(tmp_path, drawn(20_000, 150, low=0.16, high=0.16))
    assert (usual.median[0], usual.shorter[0], usual.longer[0]) == (0, 0.3, 0.3)


def test_few_or_equal_pairs_do_not_make_narrow_limits(tmp_path: Path) -> None:
    few = learned(tmp_path, [Pair("a" * 50, "b" * 50)])
    assert 0.29 < few.shorter[4] <= 0.3
    equal = learned(tmp_path, [Pair(f"{n:050d}", f"{n:050d}") for n in range(9999)])
    assert equal.shorter[4] == equal.longer[4] == 0.15


def test_deviations_have_a_sign_and_the_scale_of_their_direction() -> None:
    classes = len(EDGES) + 1
    usual = UsualLengths(np.full(classes, math.log(2)), np.full(classes, 0.5), np.full(classes, 0.25))
    characters = np.array([[10, 20], [10, 10], [10, 40]])
    assert usual.deviations(characters) == pytest.approx([0, -math.log(2) / 0.5, math.log(2) / 0.25])


def test_neither_order_nor_repetitions_matter(tmp_path: Path) -> None:
    pairs = drawn(500, 40, low=0.2, high=0.3)
    learned(tmp_path, pairs)
    first = (tmp_path / "lengths.json").read_bytes()
    learned(tmp_path, pairs[::-1] * 2)
    assert (tmp_path / "lengths.json").read_bytes() == first


def test_characters_are_counted() -> None:
    assert count_characters([Pair("ab", "żółw"), Pair("", "x")]).tolist() == [[2, 4], [0, 1]]
    assert count_characters([]).shape == (0, 2)
