"""Axes end at round numbers, and outlines are what the counts say."""

import pytest

from fairseq_ext.filtering.statistics import RATIO_EDGES, WORD_EDGES
from fairseq_ext.report import charts


@pytest.mark.parametrize(
    ("maximum", "ticks"),
    [
        (0, [0, 0.01]),
        (0.004, [0, 0.001, 0.002, 0.003, 0.004]),
        (0.137, [0, 0.05, 0.1, 0.15]),
        (0.3, [0, 0.1, 0.2, 0.3]),
        (0.62, [0, 0.2, 0.4, 0.6, 0.8]),
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_axis_ticks_are_round(maximum: float, ticks: list[float]) -> None:
    assert charts.axis_ticks(maximum) == ticks


def test_axis_ticks_reach_the_maximum_and_hardly_more() -> None:
    for number in range(1, 998):
        ticks = charts.axis_ticks(number / 997)
        assert 2 <= len(ticks) <= 6
        assert ticks[-2] < number / 997 <= ticks[-1]


def test_ratios_are_drawn_as_shares_of_the_pairs_before() -> None:
    # Half of the pairs have equal lengths; of these, half are dropped. The axis ends at 50%.
    before, after = [0] * (len(RATIO_EDGES) + 1), [0] * (len(RATIO_EDGES) + 1)
    before[13], before[9], before[17] = 20, 10, 10
    after[13] = 10
    drawing = charts.draw_ratios("ratio", (before, after), RATIO_EDGES)
    assert drawing.top == "50%"
    width = (charts.RIGHT - charts.LEFT) / 27
    left, right = f"H{charts.LEFT + 13 * width:.1f}", f"H{charts.LEFT + 14 * width:.1f}"
    middle = (charts.TOP + charts.BOTTOM) / 2
    assert f"{left}V{charts.TOP:.1f}{right}" in drawing.before
    assert f"{left}V{middle:.1f}{right}" in drawing.after
    assert dict((label, place) for place, label in drawing.ticks)["1"] == f"{charts.LEFT + 13.5 * width:.1f}"


def test_long_sentences_share_the_last_bin() -> None:
    counts = [0] * (len(WORD_EDGES) + 1)
    counts[3], counts[30], counts[51] = 98, 1, 1
    limit = charts.word_limit([counts], WORD_EDGES)
    assert limit == 60  # 99% have at most 60 words
    drawing = charts.draw_words("words", (counts, counts), WORD_EDGES, limit)
    assert [label for _, label in drawing.ticks] == ["20", "40", ">60"]
    assert drawing.before == drawing.after
    assert drawing.before.count("H") == 32  # none, 30 bins of two words, more than 60


def test_nothing_is_drawn_flat() -> None:
    none = [0] * (len(WORD_EDGES) + 1)
    assert charts.word_limit([none, none], WORD_EDGES) == 20
    drawing = charts.draw_words("words", (none, none), WORD_EDGES, 20)
    assert set(drawing.before.replace("H", "V").split("V")[1::2]) == {f"{charts.BOTTOM:.1f}", f"{charts.BOTTOM}Z"}
