"""The words of a pair say whether it is a translation, by rates that were counted."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.cleaning import dictionary
from fairseq_ext.text.cleaning.dictionary import (
    EVIDENCE_FILE,
    Dictionary,
    LexicalEvidence,
    read_word_list,
    stems,
    stems_of,
)
from fairseq_ext.text.cleaning.learn import DICTIONARY_FILE
from fairseq_ext.text.text_files import Pair
from tests.text.cleaning.judging import judge

PAIRS = [Pair("cat", "kot"), Pair("cat dog", "kot pies"), Pair("cat runs", "biega"), Pair("dog", "pies")]


def learn(folder: Path, pairs: Sequence[Pair], words: str = "cat\tkot\ndog\tpies\n") -> LexicalEvidence:
    (folder / DICTIONARY_FILE).write_text(words, encoding="utf-8")
    dictionary.learn_evidence(pairs, read_word_list(folder / DICTIONARY_FILE), folder / EVIDENCE_FILE)
    return dictionary.read_evidence(folder / EVIDENCE_FILE)


def invented(folder: Path) -> LexicalEvidence:
    pairs = [Pair(f"s{n} s{n + 1}", f"t{n} t{n + 1}") for n in range(99)]
    return learn(folder, pairs, "".join(f"s{n}\tt{n}\n" for n in range(100)))


def test_words_are_compared_by_their_first_six_letters_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "words.tsv").write_text("Translation\tTłumaczenie\nSTRASSE\tulica\t0.5\ntake off\tstart\n")
    assert read_word_list(tmp_path / "words.tsv") == {"transl": {"tłumac"}, "strass": {"ulica"}}
    assert stems("Translated, translations, STRAẞE") == ["transl", "transl", "strass"]


@pytest.mark.parametrize(
    ("text", "place"),
    [("cat\tkot\ndog pies\n", "line 2"), ("cat\tkot\t0.5\tn\n", "line 1"), ("take off\tstart\n", r"words\.tsv")],
)
def test_bad_lists_are_errors(tmp_path: Path, text: str, place: str) -> None:
    (tmp_path / "words.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=place):
        Dictionary(word_list=str(tmp_path / "words.tsv")).check(("en", "pl"))


def test_rates_are_counted_and_drawn_to_the_usual_one(tmp_path: Path) -> None:
    evidence = learn(tmp_path, PAIRS)
    # cat is met three times and translated twice; kot is in two of four pairs. Both counts as if six more were seen.
    rate, chance = (2 + 6 * 0.45) / (3 + 6), (2 + 1) / (4 + 1)
    assert chance > rate  # so few pairs say nothing
    assert (evidence.missing[0]["cat"], evidence.found[0]["cat"]) == (0, 0)
    many = learn(tmp_path, [*PAIRS, *(Pair(f"w{n}", f"v{n}") for n in range(96))])
    chance = (2 + 1) / (100 + 1)
    assert many.missing[0]["cat"] == pytest.approx(math.log((1 - chance) / (1 - rate)), abs=0.0006)
    assert many.found[0]["cat"] == pytest.approx(math.log(chance / rate), abs=0.0006)


def test_evidence_adds_up_over_both_sides(tmp_path: Path) -> None:
    evidence = invented(tmp_path)
    missing = [evidence.missing[0]["s5"], evidence.missing[1]["t7"]]
    found = [evidence.found[0]["s3"], evidence.found[1]["t3"]]
    assert min(missing) > 0 > max(found)
    assert evidence.of(stems_of(Pair("s3 s5", "t3 t7"))) == pytest.approx(sum(missing + found))
    assert evidence.of(stems_of(Pair("nothing known", "nic"))) == 0
    assert evidence.of(stems_of(Pair("s3 s3 S3", "t3"))) == pytest.approx(sum(found))
    # Ten times as many words as usual: a translation says less.
    long = " ".join(["t3", *(f"x{n}" for n in range(19))])
    assert evidence.of(stems_of(Pair("s3", long))) == pytest.approx(found[0] + math.log(10) + found[1])
    # The tail is what comes after the last translated words.
    pair = Pair("s3 s4 s5", "t3 t4 t5 t60 word t61")
    assert evidence.tail(pair, 1) == pytest.approx(evidence.missing[1]["t60"] + evidence.missing[1]["t61"])
    assert evidence.tail(pair, 0) == evidence.tail(Pair("s3", "t60 t61 t3"), 1) == 0


def test_evidence_of_several_reliable_words_is_needed(tmp_path: Path) -> None:
    invented(tmp_path)
    pairs = [
        ("s5 s15", "t6 t16"),
        ("s5 s15 s25 s35 s45", "t6 t16 t26 t36 t46"),
        ("s5 s15 s25 s35 s45", "t6 t16 t26 t36 t45"),
        ("unknown words", "nieznane"),
    ]
    against = "evidence of 8.6 against the pair in its words"
    assert judge(Dictionary(), *pairs, learned=tmp_path) == [None, against, None, None]
    few = [f"{count} known words translated" for count in ("0 of 4", "0 of 10", "2 of 10")]
    for share, reasons in ((0.9, [*few, None]), (0.2, [*few[:2], None, None])):
        assert judge(Dictionary(min_share=share, max_evidence=None), *pairs, learned=tmp_path) == reasons
