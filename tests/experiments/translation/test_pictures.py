"""Pictures show the figures that they are drawn from, at the right places."""

from dataclasses import replace
from pathlib import Path

import pytest
from fairseq_ext.experiments.translation import pictures
from fairseq_ext.experiments.translation.results import Design, Results

from fairseq_ext.report.content import Picture, Shape
from fairseq_ext.report.pictures import SHADE
from tests.experiments.translation import made_up


@pytest.fixture
def design(tmp_path: Path) -> Design:
    return Design.of(made_up.make_experiment(tmp_path))


def shapes(picture: Picture | None, kind: str) -> list[Shape]:
    assert picture is not None
    return [shape for shape in picture.shapes if shape.kind == kind]


def test_shades_of_distances_are_relative_to_two() -> None:
    record = made_up.make_distances(["A", "B"])
    record["matrix"] = [[0, 1.0], [1.0, 0]]
    picture = pictures.draw_distances(record)
    opacities = {shape.text: shape.opacity for shape in shapes(picture, "rect") if shape.style == "heat"}
    assert opacities["A, B: 1.00"] == pytest.approx(SHADE / 2)
    assert [shape.text for shape in shapes(picture, "text") if shape.style == "figure"] == ["1.00", "1.00"]


def test_confusions_are_counts_shaded_by_row() -> None:
    teacher = made_up.make_teacher(["A", "B"])
    teacher["metrics"]["test"]["confusion"] = [[30, 10], [0, 0]]
    cells = {s.text: s.opacity for s in shapes(pictures.draw_confusion(teacher), "rect") if s.style == "heat"}
    assert cells["A, A: 30"] == pytest.approx(SHADE * 0.75)
    assert cells["B, A: "] == 0


def test_gates_are_averaged_over_layers_and_drawn_by_layer() -> None:
    gates = made_up.make_gates(["A", "B"])
    mean = sum(layer[0] for layer in gates["weights"]["A"]) / 4
    texts = [shape.text for shape in shapes(pictures.draw_mean_gates("gad@1", gates), "text")]
    assert f"{mean:.2f}".removeprefix("0") in texts
    panels = shapes(pictures.draw_gate_layers("gad@1", gates), "rect")
    assert len(panels) == 2 * 4 * 2
    weight = gates["weights"]["B"][3][1]
    assert [s.opacity for s in panels if s.text.startswith("B, decoder 2: gate of B")] == [
        pytest.approx(weight, abs=1e-3)
    ]


def test_gains_are_placed_along_the_axis(design: Design) -> None:
    scores = made_up.make_scores(gains={"mix": 0.0, "ad-classifier": 2.0, "gad": -1.0})
    picture = pictures.draw_gains(Results(scores=scores), design)
    dots = {shape.text: shape.x for shape in shapes(picture, "dot") if shape.text}
    (zero,) = {shape.x for shape in shapes(picture, "line") if shape.style == "zero"}
    right, left = dots["ad-classifier, AVG: +2.0"], dots["gad, AVG: −1.0"]
    assert right - zero == pytest.approx(2 * (zero - left), abs=0.3)
    # The standard deviation of gad, both ways.
    spread = next(shape for shape in shapes(picture, "line") if shape.style == "spread")
    assert spread.width == pytest.approx(0.5 * (zero - left), abs=0.3)
    assert spread.x + spread.width / 2 == pytest.approx(left, abs=0.2)


def test_every_output_has_a_dot_in_every_row(design: Design) -> None:
    picture = pictures.draw_gains(Results(scores=made_up.make_scores()), design)
    dots = [shape for shape in shapes(picture, "dot") if shape.text]
    # Four outputs in three domains, two averages and misclassified; two of them out of domain.
    assert len(dots) == 4 * 6 + 2
    assert len({shape.y for shape in dots if shape.text.split(", ")[1].startswith("AVG")}) == 4


def test_only_ten_outputs_have_a_colour(design: Design) -> None:
    gains = {"mix": 0.0, **{f"o{number}": number / 10 for number in range(1, 13)}}
    many = replace(design, main=list(gains))
    picture = pictures.draw_gains(Results(scores=made_up.make_scores(gains=gains)), many)
    names = [shape.text for shape in shapes(picture, "text")]
    assert "o12" in names
    assert "o3" in names
    assert "o2" not in names
    assert picture is not None
    assert "The 10 outputs with the highest AVG; the tables have all." in picture.below.notes


def test_without_another_output_there_is_no_picture(design: Design) -> None:
    assert pictures.draw_gains(Results(), design) is None
    assert pictures.draw_gains(Results(scores=made_up.make_scores(gains={"mix": 0.0})), design) is None


@pytest.mark.parametrize("num_domains", [1, 2, 12, 30])
def test_everything_lies_on_the_plane(design: Design, num_domains: int) -> None:
    domains = [f"quite_a_long_domain_name_{number}" for number in range(num_domains)]
    found = Results(scores=made_up.make_scores(domains))
    gates = made_up.make_gates(domains, num_layers=6)
    for picture in (
        pictures.draw_distances(made_up.make_distances(domains)),
        pictures.draw_confusion(made_up.make_teacher(domains)),
        pictures.draw_mean_gates("gad", gates),
        pictures.draw_gate_layers("gad", gates),
        pictures.draw_gains(found, design),
    ):
        assert picture is not None
        for shape in picture.shapes:
            reach = shape.width if shape.kind in ("rect", "line") else 0
            assert 0 <= shape.x <= shape.x + reach <= picture.width
            assert 0 <= shape.y <= shape.y + shape.height <= picture.height
