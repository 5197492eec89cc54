"""Evidence by words is the logarithm of the rates that were counted, the same in whatever order."""

import math
import random
from pathlib import Path

import pytest

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.word_support import WordSupport, learn_support, load_support

PAIRS = [Pair("cat", "kot"), Pair("cat dog", "kot pies"), Pair("cat runs", "biega"), Pair("dog", "pies")]


def learned(folder: Path, pairs: list[Pair], words: str = "cat\tkot\ndog\tpies\n") -> WordSupport:
    (folder / "words.tsv").write_text(words, encoding="utf-8")
    learn_support(pairs, folder / "words.tsv", folder / "support.json")
    load_support.cache_clear()
    return load_support(str(folder / "support.json"))


def test_rates_are_counted_and_drawn_to_the_usual_one(tmp_path: Path) -> None:
    support = learned(tmp_path, PAIRS)
    # cat is met three times and translated twice; kot is in two of four pairs. Both counts as if six more were seen.
    rate, chance = (2 + 6 * 0.45) / (3 + 6), (2 + 1) / (4 + 1)
    assert chance > rate  # so few pairs say nothing
    assert (support.missing[0]["cat"], support.found[0]["cat"]) == (0, 0)
    many = learned(tmp_path, [*PAIRS, *(Pair(f"w{n}", f"v{n}") for n in range(96))])
    chance = (2 + 1) / (100 + 1)
    assert many.missing[0]["cat"] == pytest.approx(math.log((1 - chance) / (1 - rate)), abs=0.0006)
    assert many.found[0]["cat"] == pytest.approx(math.log(chance / rate), abs=0.0006)
    rate = (2 + 6 * 0.45) / (2 + 6)  # kot is always translated
    chance = (3 + 1) / (100 + 1)
    assert many.missing[1]["kot"] == pytest.approx(math.log((1 - chance) / (1 - rate)), abs=0.0006)


def test_no_word_decides_alone(tmp_path: Path) -> None:
    pairs = [Pair(f"cat w{n}", f"kot v{n}") for n in range(1000)] + [Pair(f"w{n}", f"v{n}") for n in range(9000)]
    assert learned(tmp_path, pairs).missing[0]["cat"] == pytest.approx(math.log(0.9 / 0.05), abs=0.01)


def invented(folder: Path) -> WordSupport:
    pairs = [Pair(f"s{n} s{n + 1}", f"t{n} t{n + 1}") for n in range(99)]
    return learned(folder, pairs, "".join(f"s{n}\tt{n}\n" for n in range(100)))


def test_evidence_adds_up_over_both_sides(tmp_path: Path) -> None:
    support = invented(tmp_path)
    missing = [support.missing[0]["s5"], support.missing[1]["t7"]]
    found = [support.found[0]["s3"], support.found[1]["t3"]]
    assert min(missing) > 0 > max(found)
    assert support.evidence(Pair("s3 s5", "t3 t7")) == pytest.approx(sum(missing + found))
    assert support.evidence(Pair("nothing known", "nic")) == 0
    assert support.evidence(Pair("s3 s3 S3", "t3")) == pytest.approx(sum(found))


def test_in_a_long_side_a_translation_says_less(tmp_path: Path) -> None:
    support = invented(tmp_path)
    long = " ".join(["t3", *(f"x{n}" for n in range(19))])  # ten times as many words as usual
    expected = support.found[0]["s3"] + math.log(10) + support.found[1]["t3"]
    assert support.evidence(Pair("s3", long)) == pytest.approx(expected)


def test_the_tail_is_what_comes_after_the_last_translated_words(tmp_path: Path) -> None:
    support = invented(tmp_path)
    pair = Pair("s3 s4 s5", "t3 t4 t5 t60 word t61")
    assert support.tail(pair, 1) == pytest.approx(support.missing[1]["t60"] + support.missing[1]["t61"])
    assert support.tail(pair, 0) == 0
    assert support.tail(Pair("s3", "t60 t61 t3"), 1) == 0
    # One chance hit in a long tail does not end it.
    assert support.tail(Pair("s3", "t60 t61 t62 t63 t3 t64 t65"), 1) > support.tail(Pair("s3", "t3 t64 t65"), 1)


def test_neither_order_nor_repetitions_matter(tmp_path: Path) -> None:
    learned(tmp_path, PAIRS)
    first = (tmp_path / "support.json").read_bytes()
    shuffled = PAIRS * 3
    random.Random(1).shuffle(shuffled)
    learned(tmp_path, shuffled)
    assert (tmp_path / "support.json").read_bytes() == first
