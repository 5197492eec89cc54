"""Recall, precision and losses are counted right, and filters learn from other pairs than those that are measured."""

import random

import pytest

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.clean import Cleaning
from fairseq_ext.filtering.completeness import Completeness
from fairseq_ext.filtering.dictionary import Dictionary
from fairseq_ext.filtering.filters import Empty, Length
from fairseq_ext.filtering.noise import draw_sample
from fairseq_ext.filtering.recall import Recall, choose_pairs, make_table, measure
from fairseq_ext.inputs.errors import InputError

LANGS = ("en", "pl")


def test_precision_is_that_of_a_tenth_of_noise() -> None:
    recall = Recall(200, {"length": 1, "language": 1}, {"cut": 50, "none": 0}, {"cut": 25, "none": 0})
    assert recall.lost_share == 0.01
    assert recall.recall("cut") == 0.5
    assert recall.precision("cut") == pytest.approx(0.05 / (0.05 + 0.009))
    assert (recall.recall("none"), recall.precision("none")) == (0, 0)


def test_the_table_has_a_column_for_each_experiment() -> None:
    one = Recall(200, {"length": 2}, {"cut": 50}, {"cut": 25})
    other = Recall(200, {"length": 0, "language": 1}, {"cut": 50}, {"cut": 50})
    assert make_table({"a": one, "b": other}).splitlines() == [
        "| noise | pairs | a: found | a: precision | b: found | b: precision |",
        "|---|---:|---:|---:|---:|---:|",
        "| cut | 50 | 50.0 | 84.7 | 100.0 | 95.7 |",
        "",
        "| good pairs lost, in percent | a | b |",
        "|---|---:|---:|",
        "| all | 1.00 | 0.50 |",
        "| `length` | 1.00 | 0.00 |",
        "| `language` | – | 0.50 |",
    ]
    with pytest.raises(InputError, match="no experiment"):
        make_table({})


def invented() -> list[Pair]:
    rng = random.Random(1)
    numbers = [rng.sample(range(200), rng.randrange(4, 12)) for _ in range(2000)]
    return [Pair(" ".join(f"s{n}" for n in row) + ".", " ".join(f"t{n}" for n in row) + ".") for row in numbers]


def test_filters_learn_and_find() -> None:
    sample, others = draw_sample([invented()], 200)
    cleaning = Cleaning({"empty": Empty(), "completeness": Completeness(), "dictionary": Dictionary()})
    recall = measure(cleaning, sample, others[0], LANGS)
    assert recall.lost == {"empty": 0, "completeness": 0, "dictionary": 0}
    assert recall.recall("misaligned: a target of the same length") > 0.9
    assert recall.recall("target cut to half") > 0.8
    assert recall.recall("a second sentence appended") > 0.6
    loose = measure(Cleaning({"empty": Empty(), "length": Length(max_words=7)}), sample, [], LANGS)
    assert loose.lost["length"] == sum(len(pair.source.split()) > 7 for pair in sample.pairs)


def test_pairs_are_drawn_evenly() -> None:
    corpora = [[Pair(f"{name}{n}", "x") for n in range(size)] for name, size in (("a", 50), ("b", 3))]
    chosen = choose_pairs(corpora, 20, seed=1)
    assert [sum(pair.source[0] == name for pair in chosen) for name in "ab"] == [10, 3]
    assert chosen == choose_pairs(corpora, 20, seed=1) != choose_pairs(corpora, 20, seed=2)
