"""Statistics of parts add up to those of the whole, whatever the parts and their order."""

import copy
import json
import random

import numpy as np
import pytest

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.statistics import (
    MAX_CHARS,
    MAX_SAMPLES,
    RATIO_EDGES,
    WORD_EDGES,
    Statistics,
    choose_samples,
    empty_statistics,
    make_report,
    make_sample,
    merge,
    ratio_histogram,
    word_histogram,
)

LANGS = ("en", "pl")
CASCADE = ["length", "language"]


def describe(rows: list[tuple[int, Pair]]) -> Statistics:
    """A cascade of two filters over numbered pairs: long ones go, then those whose target has an x."""
    statistics = empty_statistics(LANGS, CASCADE)
    num_words = np.array([[len(text.split()) for text in pair] for _, pair in rows], dtype=np.int64).reshape(-1, 2)
    reasons = ["length" if max(sizes) > 6 else None for sizes in num_words.tolist()]
    reasons = [
        why or ("language" if "x" in pair.target else None) for why, (_, pair) in zip(reasons, rows, strict=True)
    ]
    kept = num_words[[why is None for why in reasons]]
    statistics |= {"pairs": len(rows), "kept": len(kept), "changed_by_normalisation": sum(line % 2 for line, _ in rows)}
    statistics |= {"words_before": word_histogram(num_words, LANGS), "ratio_before": ratio_histogram(num_words)}
    statistics |= {"words_after": word_histogram(kept, LANGS), "ratio_after": ratio_histogram(kept)}
    for name in CASCADE:
        found = [row for row, why in zip(rows, reasons, strict=True) if why == name]
        statistics["rejected"][name] = len(found)
        statistics["samples"][name] = choose_samples(make_sample(line, f"no. {line}", pair) for line, pair in found)
    if statistics["rejected"]["language"]:
        statistics["languages"]["pl"] = {"cs": statistics["rejected"]["language"]}
    return statistics


def random_rows(count: int) -> list[tuple[int, Pair]]:
    chance = random.Random(7)
    sides = [[" ".join(chance.choices("abcx", k=chance.randint(1, 8))) for _ in range(count)] for _ in LANGS]
    return [(line, Pair(*pair)) for line, pair in enumerate(zip(*sides, strict=True), start=1)]


def total(parts: list[Statistics]) -> str:
    whole = empty_statistics(LANGS, CASCADE)
    for part in parts:
        whole = merge(whole, part)
    return json.dumps(whole, sort_keys=True)


def test_words_fall_into_bins_of_two() -> None:
    sizes = np.array([[0, 1], [1, 2], [2, 3], [100, 101], [5000, 4]])
    histogram = word_histogram(sizes, LANGS)
    assert [len(counts) for counts in histogram.values()] == [len(WORD_EDGES) + 1] * 2
    assert {number: count for number, count in enumerate(histogram["en"]) if count} == {0: 1, 1: 2, 50: 1, 51: 1}
    assert {number: count for number, count in enumerate(histogram["pl"]) if count} == {1: 2, 2: 2, 51: 1}


def test_equal_lengths_are_the_middle_of_the_ratios() -> None:
    sizes = np.array([[7, 7], [1, 2], [2, 1], [1, 8], [8, 1], [1, 500], [0, 3], [3, 0], [0, 0]])
    histogram = ratio_histogram(sizes)
    middle = len(RATIO_EDGES) // 2
    # Bins are a quarter of an octave wide; the last has all that is more than 2^3.125.
    assert {number - middle: count for number, count in enumerate(histogram) if count} == {
        0: 1, 4: 1, -4: 1, 12: 1, -12: 1, 13: 1,
    }  # fmt: skip


def test_swapping_the_sides_mirrors_the_ratios() -> None:
    sizes = np.stack(np.meshgrid(np.arange(1, 200), np.arange(1, 200)), axis=-1).reshape(-1, 2)
    assert ratio_histogram(sizes) == ratio_histogram(sizes[:, ::-1])[::-1]


@pytest.mark.parametrize("seed", range(5))
def test_parts_in_any_order_add_up_to_the_whole(seed: int) -> None:
    rows = random_rows(400)
    whole = total([describe(rows)])
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(401), chance.randint(1, 30)))
    parts = [describe(rows[start:end]) for start, end in zip([0, *cuts], [*cuts, 400], strict=True)]
    chance.shuffle(parts)
    assert total(parts) == whole
    assert json.loads(whole)["rejected"]["length"] > 2 * MAX_SAMPLES  # so that samples had to be chosen


def test_merging_is_associative_and_changes_neither_part() -> None:
    rows = random_rows(90)
    one, two, three = (describe(rows[start : start + 30]) for start in (0, 30, 60))
    before = copy.deepcopy((one, two, three))
    assert merge(merge(one, two), three) == merge(one, merge(two, three)) == merge(three, merge(two, one))
    assert (one, two, three) == before


def test_statistics_survive_json() -> None:
    statistics = describe(random_rows(50))
    assert json.loads(json.dumps(statistics)) == statistics


def test_histograms_of_different_bins_do_not_add() -> None:
    with pytest.raises(ValueError, match="shorter"):
        merge({"ratio_before": [1, 2, 3]}, {"ratio_before": [1, 2]})


def test_samples_differ_in_text_and_name_the_first_line() -> None:
    samples = [make_sample(line, f"repeats line {line}", Pair("a", "b")) for line in (9, 4, 6)]
    assert choose_samples(samples) == [make_sample(4, "repeats line 4", Pair("a", "b"))]
    # The border between the sides counts.
    assert len(choose_samples([make_sample(1, "", Pair("ab", "c")), make_sample(2, "", Pair("a", "bc"))])) == 2


def test_samples_are_few_cut_and_in_order() -> None:
    samples = choose_samples(make_sample(line, "", Pair(f"{line} " * 400, "short")) for line in range(1, 100))
    lines = [sample["line"] for sample in samples]
    assert len(lines) == MAX_SAMPLES
    assert lines == sorted(lines) != list(range(1, MAX_SAMPLES + 1))
    assert all(len(sample["source"]) <= MAX_CHARS and sample["source"].endswith("…") for sample in samples)
    assert {sample["target"] for sample in samples} == {"short"}


def test_a_report_has_bins_options_and_domains() -> None:
    report = make_report(LANGS, CASCADE, {"length": {"max_words": 6}}, {"law": empty_statistics(LANGS, CASCADE)})
    assert report["cascade"] == CASCADE
    assert report["options"] == {"length": {"max_words": 6}}
    counts = report["domains"]["law"]["words_after"]["pl"]
    assert len(counts) == len(report["word_edges"]) + 1
    assert report["domains"]["law"]["rejected"] == {"length": 0, "language": 0}
