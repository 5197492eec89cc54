"""A missing part shows by length, by the final mark and by words without translation; what is short may be so."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.batch import Batch, Reasons
from fairseq_ext.filtering.completeness import LENGTHS_FILE, Completeness
from fairseq_ext.filtering.dictionary import SUPPORT_FILE
from fairseq_ext.filtering.usual_lengths import EDGES, load_lengths
from fairseq_ext.filtering.word_support import load_support
from fairseq_ext.inputs.errors import InputError


@pytest.fixture
def learned(tmp_path: Path) -> Path:
    """Usual are equal lengths; ln 2 = 0.69 are 3.47 deviations."""
    load_lengths.cache_clear()
    load_support.cache_clear()
    usual = [[0.0, 0.2, 0.2]] * (len(EDGES) + 1)
    (tmp_path / LENGTHS_FILE).write_text(json.dumps({"edges": EDGES, "usual": usual}), encoding="utf-8")
    return tmp_path


def learn_words(folder: Path, missing: float = 3.0) -> None:
    words = {side: {f"{side[0]}{n}": [missing, -3.0] for n in range(9)} for side in ("source", "target")}
    translations = {f"s{n}": [f"t{n}"] for n in range(9)}
    document = {"mean_words": [9, 9], "translations": translations, **words}
    (folder / SUPPORT_FILE).write_text(json.dumps(document), encoding="utf-8")


def judge(folder: Path, *pairs: tuple[str, str], **options: Any) -> Reasons:
    criterion = Completeness(learned=str(folder), **options)
    return criterion.reasons(Batch([Pair(*pair) for pair in pairs], ("en", "pl")))


def test_lengths_alone(learned: Path) -> None:
    pairs = [("a" * 60, "b" * 24), ("a" * 60, "b" * 23), ("a" * 23, "b" * 60), ("a" * 60, "b" * 59)]
    assert judge(learned, *pairs) == [
        None,
        "target too short: 4.8 deviations",
        "source too short: 4.8 deviations",
        None,
    ]


def test_short_pairs_pass(learned: Path) -> None:
    assert judge(learned, ("a" * 15, "b"), ("a" * 16, "b")) == [None, "target too short: 13.9 deviations"]
    assert judge(learned, ("a" * 15, "b"), exempt=0) == ["target too short: 13.5 deviations"]


@pytest.mark.parametrize("end", [".", "!", "…", "。", '."', ".)", "?»"])
def test_a_final_mark_that_only_the_longer_side_has_counts(learned: Path, end: str) -> None:
    source = "a" * (60 - len(end)) + end
    expected = "3.5 deviations, no final mark"
    assert judge(learned, (source, "b" * 30), ("b" * 30, source)) == [
        f"target too short: {expected}",
        f"source too short: {expected}",
    ]
    # Both have one, or only the shorter has.
    assert judge(learned, (source, "b" * 29 + "."), ("a" * 60, "b" * 29 + ".")) == [None, None]


def test_last_words_without_translation_count(learned: Path) -> None:
    pairs = [("s1 s2 s3 word word s4 s5 words", "t1 t2 t3 word"), ("s4 s5 s1 s2 s3 words and words", "t1 t2 t3 word")]
    assert judge(learned, *pairs) == [None, None]
    learn_words(learned)
    found = "target too short: 4.2 deviations, the source's last words not translated"
    assert judge(learned, *pairs, exempt=10) == [found.replace("4.2", "4.2"), None]


def test_words_count_no_more_than_some(learned: Path) -> None:
    learn_words(learned, missing=100.0)
    # The twofold length is 3.47 deviations, equal length none.
    pairs = [("s1 s2 " + "x" * 24, "b" * 30), ("x" * 50 + " s1 s2 s3 s4", "b" * 31)]
    assert judge(learned, *pairs, exempt=10) == [
        None,
        "target too short: 3.5 deviations, the source's last words not translated",
    ]


def test_it_is_learned_first() -> None:
    assert Completeness().reasons(Batch([], ("en", "zh"))) == []
    with pytest.raises(InputError, match="completeness: nothing was learned"):
        Completeness().reasons(Batch([Pair("a", "b")], ("en", "zh")))


@pytest.mark.parametrize(
    ("options", "message"), [({"max_deviation": -1.0}, "max_deviation: -1"), ({"exempt": -1}, "exempt")]
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Completeness(**options)
