"""Pictures of tasks show the figures that they are drawn from, at the right places."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.experiments.classification import pictures as pictures
from fairseq_ext.experiments.classification.results import TaskDesign, TaskResults, read_results
from fairseq_ext.report.content import Picture, Shape
from tests.experiments.classification import made_up as made_up

Measured = tuple[TaskResults, TaskDesign]


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    config = made_up.make_experiment(tmp_path)
    return read_results(config), TaskDesign.of(config)


def shapes(picture: Picture | None, kind: str) -> list[Shape]:
    assert picture is not None
    return [shape for shape in picture.shapes if shape.kind == kind]


def test_methods_are_placed_by_parameters_and_distance(measured: Measured) -> None:
    picture = pictures.draw_trade_off(*measured)
    dots = {shape.text: shape for shape in shapes(picture, "dot") if shape.text}
    assert {text.partition(",")[0] for text in dots} == {
        "adapters-8: −1.2", "adapters-64: −0.2", "top-1: −4.0", "top-2: −1.0", "full: 0.0", "norms: −6.0"
    }  # fmt: skip
    by_name = {text.partition(":")[0]: dot for text, dot in dots.items()}
    order = ["norms", "adapters-8", "adapters-64", "top-1", "top-2", "full"]
    assert sorted(by_name, key=lambda name: by_name[name].x) == order
    # Heights are linear, places logarithmic.
    heights = {name: by_name[name].y for name in order}
    assert heights["norms"] - heights["full"] == pytest.approx(6 * (heights["top-2"] - heights["full"]))
    assert [by_name[name].style for name in ("adapters-8", "full", "norms")] == ["f1", "f0", "f2"]


def test_lines_join_the_dots_of_a_series(measured: Measured) -> None:
    picture = pictures.draw_trade_off(*measured)
    # Two sizes of adapters; two numbers of top layers and all.
    assert sorted(shape.style for shape in shapes(picture, "segment")) == ["s0", "s0", "s1"]
    dots = {shape.text.partition(":")[0]: shape for shape in shapes(picture, "dot") if shape.text}
    segment = next(shape for shape in shapes(picture, "segment") if shape.style == "s1")
    end = (segment.x + segment.width, segment.y + segment.height)
    assert end == pytest.approx((dots["adapters-64"].x, dots["adapters-64"].y))


def test_every_task_has_a_panel(measured: Measured) -> None:
    picture = pictures.draw_trade_off_by_task(*measured)
    titles = [shape.text for shape in shapes(picture, "text") if shape.style == "strong"]
    assert titles == ["films: accuracy", "questions: accuracy", "irony: accuracy"]
    # Of two seeds the line is from the lower to the higher.
    spreads = [shape for shape in shapes(picture, "line") if shape.style == "s1"]
    assert len(spreads) == 3


def test_without_figures_there_are_no_pictures(measured: Measured) -> None:
    nothing, design = TaskResults(), measured[1]
    assert pictures.draw_trade_off(nothing, design) is None
    assert pictures.draw_trade_off_by_task(nothing, design) is None


def test_everything_lies_on_the_plane(measured: Measured) -> None:
    results, design = measured
    for picture in (
        pictures.draw_trade_off(results, design),
        pictures.draw_trade_off_by_task(results, design),
    ):
        assert picture is not None
        for shape in picture.shapes:
            reach = shape.width if shape.kind in ("rect", "line", "segment") else 0
            rise = shape.height if shape.kind in ("rect", "line", "segment") else 0
            assert 0 <= shape.x <= shape.x + reach <= picture.width
            assert 0 <= shape.y <= picture.height
            assert 0 <= shape.y + rise <= picture.height
