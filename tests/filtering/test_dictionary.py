"""The words of a pair say whether it is a translation."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.corpora.text_files import Pair, read_parallel
from fairseq_ext.filtering.batch import Batch
from fairseq_ext.filtering.dictionary import DICTIONARY_FILE, SUPPORT_FILE, Dictionary
from fairseq_ext.filtering.model_1 import learn_dictionary
from fairseq_ext.filtering.word_support import learn_support
from fairseq_ext.inputs.errors import InputError
from tests.filtering.test_word_list import write_list
from tests.real_corpora import corpus


def reasons(path: Path, pairs: Sequence[Pair], *, min_share: float = 0.2, **options: Any) -> list[str | None]:
    """What the share of translated words alone says."""
    criterion = Dictionary(word_list=str(path), min_share=min_share, max_evidence=None, **options)
    return criterion.reasons(Batch(pairs, ("en", "pl")))


def share_rejected(folder: Path, pairs: Sequence[Pair]) -> float:
    found = Dictionary(learned=str(folder)).reasons(Batch(pairs, ("en", "pl")))
    return sum(reason is not None for reason in found) / len(pairs)


@pytest.mark.slow
def test_learned_from_real_text_it_tells_shuffled_pairs(tmp_path: Path) -> None:
    folder, rng = corpus("parallel/en-pl"), random.Random(1)
    held_out, learned_from = {}, []
    for name in ("IT", "LAW", "MED", "TALK"):
        pairs = read_parallel(folder / f"{name}.en", folder / f"{name}.pl")
        rng.shuffle(pairs)
        held_out[name] = pairs[:500]
        learned_from += pairs[500:]
    learn_dictionary(learned_from, tmp_path / DICTIONARY_FILE)
    learn_support(learned_from, tmp_path / DICTIONARY_FILE, tmp_path / SUPPORT_FILE)
    for name, pairs in held_out.items():
        # Neighbours in length, so that length tells nothing.
        by_length = sorted(pairs, key=lambda pair: len(pair.target.split()))
        shuffled = [Pair(one.source, other.target) for one, other in zip(by_length, by_length[1:], strict=False)]
        assert share_rejected(tmp_path, pairs) < 0.01, name
        assert share_rejected(tmp_path, shuffled) > 0.55, name


def test_known_words_of_both_sides_are_counted(tmp_path: Path) -> None:
    path = write_list(tmp_path, "house\tdom\nhouse\tdomy\nbig\tduży\ncat\tkot\t0.5\ntree\tdrzewo\n")
    pairs = [
        Pair("A big house", "To duży dom"),
        Pair("A big house", "Drzewo i kot"),
        Pair("A big, big HOUSE. A tree!", "Jakiś kot"),
        Pair("A house", "Kot"),
        Pair("nothing known", "nic"),
    ]
    assert reasons(path, pairs) == [None, "0 of 4 known words translated", "0 of 4 known words translated", None, None]
    assert reasons(path, pairs[3:], min_words=2) == ["0 of 2 known words translated", None]
    half = [Pair("big house", "duży kot")]
    assert reasons(path, half, min_share=0.5) == [None]
    assert reasons(path, half, min_share=0.51) == ["2 of 4 known words translated"]


def test_a_word_may_translate_two(tmp_path: Path) -> None:
    path = write_list(tmp_path, "aged\tstary\nold\tstary\ncat\tkot\ndog\tpies\n")
    pairs = [Pair("An aged, old cat", "Stary pies"), Pair("An old cat", "Stary, stary pies")]
    assert reasons(path, pairs, min_share=1.0, min_words=1) == [
        "3 of 5 known words translated",
        "2 of 4 known words translated",
    ]


def test_evidence_of_several_reliable_words_is_needed(tmp_path: Path) -> None:
    path = write_list(tmp_path, "".join(f"s{n}\tt{n}\n" for n in range(100)))
    learn_support([Pair(f"s{n} s{n + 1}", f"t{n} t{n + 1}") for n in range(99)], path, tmp_path / SUPPORT_FILE)
    criterion = Dictionary(word_list=str(path), learned=str(tmp_path))
    pairs = [
        Pair("s5 s15", "t6 t16"),
        Pair("s5 s15 s25 s35 s45", "t6 t16 t26 t36 t46"),
        Pair("s5 s15 s25 s35 s45", "t6 t16 t26 t36 t45"),
        Pair("s5 s15 s25 s35 s45", "t5 t15 t25 t35 t45"),
        Pair("unknown words", "nieznane"),
    ]
    against = "evidence of 8.6 against it by its words"
    assert criterion.reasons(Batch(pairs, ("en", "pl"))) == [None, against, None, None, None]


def test_both_measures_may_be_asked(tmp_path: Path) -> None:
    path = write_list(tmp_path, "cat\tkot\ndog\tpies\n")
    learn_support([Pair("cat", "kot")], path, tmp_path / SUPPORT_FILE)
    criterion = Dictionary(word_list=str(path), min_share=0.2, learned=str(tmp_path))
    pairs = [Pair("A cat, a dog", "To kot i pies"), Pair("A cat", "Pies"), Pair("Cat cat dog", "Kot")]
    assert criterion.reasons(Batch(pairs, ("en", "pl"))) == [None, None, None]
    strict = Dictionary(word_list=str(path), min_share=0.7, min_words=2, learned=str(tmp_path))
    assert strict.reasons(Batch(pairs[1:], ("en", "pl"))) == [
        "0 of 2 known words translated",
        "2 of 3 known words translated",
    ]


def test_without_a_list_it_says_so(tmp_path: Path) -> None:
    for criterion in (Dictionary(), Dictionary(min_share=0.2, max_evidence=None)):
        with pytest.raises(InputError, match="dictionary: nothing was learned from the corpora; give word_list and"):
            criterion.reasons(Batch([Pair("a dog", "pies")], ("en", "pl")))
    assert Dictionary().reasons(Batch([], ("en", "pl"))) == []
    with pytest.raises(InputError, match="zh has no spaces between words; leave this filter out"):
        Dictionary().reasons(Batch([], ("en", "zh")))
    with pytest.raises(InputError, match=r"nowhere\.tsv: not found"):
        reasons(tmp_path / "nowhere.tsv", [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_share": 0.0}, r"min_share: 0\.0 is no share"),
        ({"min_share": 1.1}, r"min_share: 1\.1 is no share"),
        ({"max_evidence": -1.0}, r"max_evidence: -1\.0 makes no sense"),
        ({"max_evidence": None}, "max_evidence and min_share are both null"),
        ({"min_words": 0}, "min_words: 0 is too small"),
        ({"sentences": 0}, "sentences: 0 is too small"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Dictionary(**options)
