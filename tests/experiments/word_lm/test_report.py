"""The report of made-up figures says them, beside the paper's, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.experiments.training_log import TrainingLog
from fairseq_ext.experiments.word_lm.config import load_config
from fairseq_ext.experiments.word_lm.report import draw_curves, make_report, report_step
from fairseq_ext.experiments.word_lm.results import WordLmDesign, WordLmResults
from fairseq_ext.experiments.word_lm.tables import PAPER
from fairseq_ext.experiments.word_lm.train import KNESER_NEY
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Missing, Picture, Table
from fairseq_ext.report.writing import MARKDOWN_FILE, PAGE_FILE
from tests.experiments.word_lm import made_up as word_lm_made_up


@pytest.fixture
def blocks(tmp_path: Path) -> dict[str, Table | Missing | Picture]:
    """Everything with a title."""
    report = make_report(word_lm_made_up.make_experiment(tmp_path))
    return {block.title: block for section in report.sections for block in section.blocks if hasattr(block, "title")}  # type: ignore[misc,union-attr]


def rows_of(block: object) -> dict[str, list[str]]:
    assert isinstance(block, Table)
    return {row.name: [f"{cell.text}{cell.note}" for cell in row.cells] for _, rows in block.groups for row in rows}


def test_perplexities_are_those_of_the_records_beside_the_papers(blocks: dict[str, object]) -> None:
    table = blocks["Table 2. Perplexity"]
    assert isinstance(table, Table)
    assert [heading for heading, _ in table.groups] == [
        "Baselines", "Adaptation on words", "Adaptation on contexts", "Gated adaptation",
    ]  # fmt: skip
    assert rows_of(table) == {
        "kneser-ney": ["154.00", "140.00", "148.0", "141.2", "1,234,567", "–", "–", "–"],
        "standard": ["110.00", "100.00", "93.0", "89.3", "1,234,567", "3", "4", "200"],
        "wvs": ["104.50", "95.00", "88.4", "85.2", "1,234,567", "3", "4", "200"],
        "cvs": ["105.60", "96.00", "88.2", "84.7", "1,234,567", "3", "4", "200"],
        "dagru": ["101.20±3.11", "92.00±2.83", "86.2", "81.9", "1,234,567", "3, 3", "4", "200"],
    }
    best = [row.name for _, rows in table.groups for row in rows if row.cells[1].is_best]
    assert best == ["dagru"]


def test_findings_are_set_beside_the_papers(blocks: dict[str, object]) -> None:
    rows = rows_of(blocks["The paper’s findings"])
    assert rows["A GRU beats the n-gram model"] == ["yes: 89.3, 141.2", "yes: 100.0, 140.0"]
    assert rows["Concatenating words beats the standard model"] == ["no: 91.4, 89.3", "not measured"]
    assert rows["Summing contexts beats concatenating them"] == ["yes: 84.7, 86.2", "not measured"]
    assert rows["DAGRU beats all others"] == ["yes: 81.9, 84.7", "yes: 92.0, 95.0"]


def test_curves_stand_in_panels_with_the_standard_model(blocks: dict[str, object]) -> None:
    picture = blocks["Figure 5. Perplexity of the validation set by epoch"]
    assert isinstance(picture, Picture)
    dots = [shape.text for shape in picture.shapes if shape.kind == "dot" and shape.text]
    # Three epochs each, as the first is too high; the standard model in every one of four panels.
    assert len(dots) == 3 * (4 + 3)
    assert dots.count("standard, epoch 3: 110.0") == 4
    assert "dagru, epoch 4: 108.0" in dots
    # Epochs are equally far apart.
    places = [shape.x for shape in picture.shapes if shape.kind == "dot" and shape.text.startswith("wvs, ")]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1])


def test_all_combinations_are_drawn() -> None:
    """Twelve systems, and ten colours: each panel has colours of its own, but for those of the standard models."""
    names = [name for name in PAPER if name != KNESER_NEY]
    design = WordLmDesign("all", {name: name for name in names}, {name: [name] for name in names})
    logs = {name: TrainingLog({1: 100.0 + place, 2: 90.0}, 60) for place, name in enumerate(names)}
    picture = draw_curves(WordLmResults(logs=logs), design)
    assert picture is not None
    assert not any("Not drawn" in note for note in picture.below.notes)
    styles: dict[str, set[str]] = {}
    for shape in picture.shapes:
        if shape.kind == "dot" and shape.text:
            styles.setdefault(shape.text.partition(",")[0], set()).add(shape.style)
    assert styles.keys() == set(names)
    assert all(len(style) == 1 for style in styles.values())
    assert len({*styles["none"], *styles["wvg"], *styles["cvg"], *styles["dagru"]}) == 4
    legends = [shape.text for shape in picture.shapes if shape.kind == "text" and shape.text in names]
    assert sorted(legends) == sorted(names)


def test_text_and_missing_words_are_told(blocks: dict[str, object]) -> None:
    vectors = rows_of(blocks["Words and their general-domain vectors"])
    assert vectors == {"glove.txt": ["25", "90", "10", "12.5%", "n't, u.s."]}
    assert rows_of(blocks["Table 1. The text"])["train"] == ["10", "1,000", "0"]


def test_the_report_is_written_and_follows_its_records(tmp_path: Path) -> None:
    config = word_lm_made_up.make_experiment(tmp_path)
    run_steps([report_step(config)])
    report = tmp_path / "work/report"
    assert "92.0, standard one of 100.0." in (report / MARKDOWN_FILE).read_text(encoding="utf-8")
    assert "<svg" in (report / PAGE_FILE).read_text(encoding="utf-8")
    assert (report / "curves.svg").is_file()
    before = report_step(config).inputs
    (tmp_path / "work/systems/wvs/train.log").unlink()
    assert len(report_step(config).inputs) == len(before) - 1


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    report = make_report(load_config(word_lm_made_up.write_file(tmp_path)))
    assert report.lead == "Nothing has been measured yet."
    assert all(isinstance(block, Missing) for section in report.sections for block in section.blocks)


def test_a_reading_must_be_there(tmp_path: Path) -> None:
    path = word_lm_made_up.write_file(tmp_path, evaluate={"reading": "reading.md"})
    with pytest.raises(InputError, match="evaluate: reading: no file"):
        report_step(load_config(path))
