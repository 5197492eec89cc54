"""A missing part shows by length, by the final mark and by words without translation; what is short may be so."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.text.cleaning.completeness import EDGES, LENGTHS_FILE, Completeness, LengthRatios, learn_lengths
from fairseq_ext.text.cleaning.dictionary import EVIDENCE_FILE
from fairseq_ext.text.text_files import Pair
from tests.text.cleaning.judging import judge


@pytest.fixture
def learned(tmp_path: Path) -> Path:
    """Usual are equal lengths; ln 2 = 0.69 are 3.47 deviations."""
    usual = [[0.0, 0.2, 0.2]] * (len(EDGES) + 1)
    (tmp_path / LENGTHS_FILE).write_text(json.dumps({"edges": EDGES, "usual": usual}), encoding="utf-8")
    return tmp_path


def test_lengths_alone(learned: Path) -> None:
    pairs = [("a" * 60, "b" * 24), ("a" * 60, "b" * 23), ("a" * 23, "b" * 60)]
    reasons = [None, "target too short: 4.8 deviations", "source too short: 4.8 deviations"]
    assert judge(Completeness(), *pairs, learned=learned) == reasons
    kept, dropped = judge(Completeness(), ("a" * 15, "b"), ("a" * 16, "b"), learned=learned)  # short pairs pass
    assert kept is None
    assert dropped is not None


@pytest.mark.parametrize("end", [".", "。", "?»"])
def test_a_final_mark_that_only_the_longer_side_has_counts(learned: Path, end: str) -> None:
    source = "a" * (60 - len(end)) + end
    pairs = [(source, "b" * 30), ("b" * 30, source), (source, "b" * 29 + "."), ("a" * 60, "b" * 29 + ".")]
    expected = "too short: 3.5 deviations, no final mark"
    assert judge(Completeness(), *pairs, learned=learned) == [f"target {expected}", f"source {expected}", None, None]


def test_last_words_without_translation_count(learned: Path) -> None:
    pairs = [("s1 s2 s3 word word s4 s5 words", "t1 t2 t3 word"), ("s4 s5 s1 s2 s3 words and words", "t1 t2 t3 word")]
    assert judge(Completeness(), *pairs, learned=learned) == [None, None]
    words = {side: {f"{side[0]}{n}": [3.0, -3.0] for n in range(9)} for side in ("source", "target")}
    translations = {f"s{n}": [f"t{n}"] for n in range(9)}
    evidence = {"mean_words": [9, 9], "translations": translations, **words}
    (learned / EVIDENCE_FILE).write_text(json.dumps(evidence), encoding="utf-8")
    found = "target too short: 4.2 deviations, the source's last words not translated"
    assert judge(Completeness(exempt=10), *pairs, learned=learned) == [found, None]


def test_median_and_deviations_of_each_direction_are_found(tmp_path: Path) -> None:
    rng, pairs = random.Random(1), []
    for number in range(20_000):
        value = rng.gauss(0, 1)
        ratio = 1.2 * math.exp(value * (0.16 if value < 0 else 0.32))
        source = round(300 / (1 + ratio))
        pairs.append(Pair(f"{number:06d}".ljust(source, "a"), "b" * (300 - source)))
    learn_lengths(pairs, tmp_path / LENGTHS_FILE)
    usual = LengthRatios.read(tmp_path / LENGTHS_FILE)
    row = int(np.searchsorted(EDGES, 150, side="right"))
    found = (usual.median[row], usual.shorter[row], usual.longer[row])
    assert found == pytest.approx((math.log(1.2), 0.16, 0.32), abs=0.01)
    assert (usual.median[0], usual.shorter[0], usual.longer[0]) == (0, 0.3, 0.3)  # no pair was so short
