"""Line charts put points where their axes say."""

from __future__ import annotations

import pytest

from fairseq_ext.report.content import Shape
from fairseq_ext.report.line_charts import Level, Panel, Point, line_panels, power_of_ten, thousands


def draw(*panels: Panel) -> list[Shape]:
    return line_panels(panels, {"a": 0, "b": 1}, "below", "beside", thousands)[0]


def of_kind(shapes: list[Shape], kind: str) -> list[Shape]:
    return [shape for shape in shapes if shape.kind == kind]


def test_heights_are_read_off_the_labels() -> None:
    shapes = draw(Panel("t", [(0, [Point(10, 71, "low"), Point(1000, 76, "high")])]))
    labels = {shape.text: shape.y - 4 for shape in of_kind(shapes, "text") if shape.anchor == "end"}
    assert list(labels) == ["71", "72", "73", "74", "75", "76"]
    dots = {shape.text: shape.y for shape in of_kind(shapes, "dot")}
    assert dots["low"] == pytest.approx(labels["71"])
    assert dots["high"] == pytest.approx(labels["76"])


def test_powers_of_ten_are_marked_below() -> None:
    shapes = draw(Panel("t", [(0, [Point(900, 1, "one"), Point(1_100_000, 2, "other")])]))
    marks = {shape.text: shape.x for shape in of_kind(shapes, "text") if shape.anchor == "middle"}
    assert list(marks)[:-1] == ["1k", "10k", "100k", "1M"]
    assert marks["10k"] - marks["1k"] == pytest.approx(marks["1M"] - marks["100k"])


@pytest.mark.parametrize("points", [[Point(5, 1, "")], [Point(5, 1, ""), Point(6, 1, "")]])
def test_one_value_has_a_chart(points: list[Point]) -> None:
    shapes = draw(Panel("t", [(0, points)]))
    assert len([shape for shape in of_kind(shapes, "line") if shape.width]) >= 2
    assert any(shape.text == "10" for shape in of_kind(shapes, "text"))


def test_what_hardly_differs_looks_so() -> None:
    points = [Point(10, 53.8, "one"), Point(100, 53.8 + 1e-12, "other")]
    shapes = draw(Panel("t", [(0, points)]))
    labels = [shape.text for shape in of_kind(shapes, "text") if shape.anchor == "end"]
    assert labels == ["53.2", "53.4", "53.6", "53.8", "54", "54.2", "54.4"]
    one, other = (shape.y for shape in of_kind(shapes, "dot") if shape.text)
    assert one == pytest.approx(other)


def test_panels_have_heights_of_their_own_and_the_same_axis() -> None:
    one = Panel("one", [(0, [Point(10, 0, "a"), Point(100, 10, "b")])])
    other = Panel("other", [(1, [Point(10, 50, "c"), Point(100, 60, "d")])], [Level(52, "level")])
    dots = {shape.text: shape for shape in of_kind(draw(one, other), "dot") if shape.text}
    assert dots["b"].y == dots["d"].y
    assert dots["d"].x - dots["c"].x == pytest.approx(dots["b"].x - dots["a"].x)
    assert (dots["a"].style, dots["c"].style) == ("f0", "f1")


def test_only_what_is_drawn_is_named() -> None:
    shapes = draw(Panel("t", [(0, []), (1, [Point(10, 1, "p")])]))
    assert [shape.text for shape in of_kind(shapes, "text") if shape.text in ("a", "b")] == ["b"]
    assert next(shape.style for shape in of_kind(shapes, "dot") if not shape.text) == "f1"


def test_levels_and_spreads_are_at_their_heights() -> None:
    shapes = draw(Panel("t", [(0, [Point(10, 5, "p", spread=(0, 10))])], [Level(10, "level")]))
    (spread,) = [shape for shape in of_kind(shapes, "line") if shape.style == "s0"]
    (level,) = [shape for shape in of_kind(shapes, "line") if shape.style == "zero"]
    (dot,) = [shape for shape in of_kind(shapes, "dot") if shape.text]
    assert spread.y == level.y
    assert dot.y == pytest.approx(spread.y + spread.height / 2)


def test_a_level_of_a_series_has_its_colour() -> None:
    shapes = draw(Panel("t", [(1, [Point(10, 5, "p")])], [Level(10, series=1), Level(20, "of none")]))
    of_series, of_none = (shape for shape in of_kind(shapes, "line") if shape.style in ("s1", "zero"))
    assert (of_series.style, of_series.series) == ("s1", 1)
    assert (of_none.style, of_none.series) == ("zero", None)
    assert of_series.y > of_none.y


def test_numbers_at_axes() -> None:
    assert [power_of_ten(10.0**power) for power in (-7, 0, 3)] == ["10⁻⁷", "10⁰", "10³"]
    assert [thousands(10.0**power) for power in (2, 3, 5, 6, 9)] == ["100", "1k", "100k", "1M", "1G"]
