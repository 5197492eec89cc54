"""The report of a tiny real run says its figures; that of made-up ones marks, compares and averages them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.experiments.classification.config import ClassificationExperiment
from fairseq_ext.experiments.classification.report import make_report, report_step
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Cell, Missing, Picture, Table
from fairseq_ext.report.writing import MARKDOWN_FILE, PAGE_FILE
from tests.experiments.classification import made_up as made_up
from tests.experiments.classification.small_classification_experiment import write_short_classification_experiment
from tests.recorded import restore

Blocks = dict[str, Table | Missing | Picture]
RESULTS = "Tables 1 and 2. Results on the test sets"


@pytest.fixture
def experiment(tmp_path: Path) -> ClassificationExperiment:
    return restore("classification", write_short_classification_experiment(tmp_path))


@pytest.fixture
def real(experiment: ClassificationExperiment) -> Blocks:
    return blocks_of(experiment)


@pytest.fixture
def blocks(tmp_path: Path) -> Blocks:
    return blocks_of(made_up.make_experiment(tmp_path))


def blocks_of(config: ClassificationExperiment) -> Blocks:
    """Everything with a title."""
    report = make_report(config)
    return {block.title: block for section in report.sections for block in section.blocks if hasattr(block, "title")}  # type: ignore[misc,union-attr]


def record_of(experiment: ClassificationExperiment, run: str) -> dict[str, Any]:
    """What was measured of a run."""
    path = experiment.work_dir / "predictions" / run / "metrics.json"
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def rows_of(block: object) -> dict[str, list[Cell]]:
    assert isinstance(block, Table)
    return {row.name: list(row.cells) for _, rows in block.groups for row in rows}


def test_all_tables_and_pictures_are_there(real: Blocks) -> None:
    assert list(real) == [
        "The paper’s findings",
        RESULTS,
        "F1 on the test sets",
        "Main metrics on the validation sets",
        "Figures 1 and 3. Distance to full fine-tuning by trained parameters",
        "Figure 4. Results by trained parameters",
        "Table 3. The tasks",
    ]
    # The tiny run has no system for all tasks.
    assert [title for title, block in real.items() if isinstance(block, Missing)] == ["The paper’s findings"]


def test_results_are_those_that_were_measured(experiment: ClassificationExperiment, real: Blocks) -> None:
    rows = rows_of(real[RESULTS])
    place, same = (record_of(experiment, f"adapters@{task}") for task in ("place", "same"))
    trained, base = (place["parameters"][name] for name in ("trained", "base"))
    assert [cell.text for cell in rows["adapters"]] == [
        f"{trained:,}", f"{trained / base:.0%}", "–", f"{100 * place['metrics']['test']['accuracy']:.1f}", "–",
        f"{100 * same['metrics']['test']['accuracy']:.1f}", "–", "–",
    ]  # fmt: skip
    matthews = record_of(experiment, "top@verb")["metrics"]["test"]["matthews"]
    assert [cell.text for cell in rows["top"]][3:] == ["–", f"{100 * matthews:.1f}", "–", "–", "–"]


def test_parameters_are_compared_and_worse_is_marked(blocks: Blocks) -> None:
    rows = rows_of(blocks[RESULTS])
    assert [cell.text for cell in rows["top-2"]] == ["940,000", "31%", "1.64×", "79.0", "84.0", "61.0", "74.7"]
    # All of the base three times, and three heads.
    assert rows["full"][2].text == "3.04×"
    # The base once, and what is trained three times.
    assert rows["adapters-8"][:3] == [Cell("77,000"), Cell("2.6%"), Cell("1.08×")]
    # Not all others are shown to be worse.
    assert not any(cell.is_best for row in rows.values() for cell in row)
    assert rows["norms"][3].mark == "▼"
    assert rows["adapters-8"][3].mark == ""


def test_seeds_are_averaged(blocks: Blocks) -> None:
    films, average = (rows_of(blocks[RESULTS])["adapters-64"][n] for n in (3, 6))
    assert (films.text, films.note) == ("79.8", "±0.7")
    assert (average.text, average.note) == ("75.5", "±0.7")


def test_systems_are_grouped_by_what_becomes_of_the_base(blocks: Blocks) -> None:
    table = blocks[RESULTS]
    groups = [[row.name for row in rows] for _, rows in table.groups]  # type: ignore[union-attr]
    assert groups == [["full", "top-1", "top-2"], ["norms", "adapters-8", "adapters-64"]]


def test_other_metrics_say_what_they_are(blocks: Blocks) -> None:
    table = blocks["F1 on the test sets"]
    assert rows_of(table)["full"] == [Cell("78.0"), Cell("83.0"), Cell("60.0")]
    notes = " ".join(table.below.notes)  # type: ignore[union-attr]
    assert "films: F1 of 'pos'; questions: F1, averaged over the 6 labels" in notes


def test_tasks_are_described(experiment: ClassificationExperiment, real: Blocks) -> None:
    rows = rows_of(real["Table 3. The tasks"])
    majority = record_of(experiment, "top@verb")["majority"]["test"]
    assert [cell.text for cell in rows["verb"]] == ["120", "40", "40", "2", f"{100 * majority:.1f}"]
    assert [cell.text for cell in rows["size"]][3:] == ["–", "–"]


def test_lead_names_the_best_adapters(tmp_path: Path) -> None:
    report = make_report(made_up.make_experiment(tmp_path))
    assert report.lead == (
        "adapters-64, the best adapters on the validation sets, reach 75.5 on the test sets of 3 tasks on average, and "
        "train 8.3% of the base’s parameters for each; full reaches 75.7."
    )
    assert ("Parameters of the base", "3,000,000") in report.tiles
    # Six methods in three tasks, one of them twice.
    assert ("Trainings", str(7 * 3)) in report.tiles


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    report = make_report(made_up.make_file(tmp_path))
    assert report.lead == "Nothing has been measured yet."
    assert all(isinstance(block, Missing) for section in report.sections for block in section.blocks)


def test_page_and_markdown_have_the_same_figures(experiment: ClassificationExperiment) -> None:
    step = report_step(experiment)
    run_steps([step])
    files = {path.name: path.read_text(encoding="utf-8") for path in step.output.iterdir() if path.suffix != ".json"}
    assert {"trade-off.svg", "trade-off-tasks.svg"} <= files.keys()
    trained = record_of(experiment, "adapters@place")["parameters"]["trained"]
    for text in (files[PAGE_FILE], files[MARKDOWN_FILE]):
        assert f"{trained:,}" in text
    assert report_step(experiment).options == step.options


def test_a_new_record_makes_the_report_anew(experiment: ClassificationExperiment) -> None:
    before = report_step(experiment)
    (experiment.work_dir / "analysis/differences/differences.json").unlink()
    assert report_step(experiment).options != before.options


def test_a_reading_is_part_of_the_report(tmp_path: Path) -> None:
    (tmp_path / "words.md").write_text("Adapters are *small*.\n", encoding="utf-8")
    step = report_step(made_up.make_file(tmp_path, reading="words.md"))
    run_steps([step])
    assert "Adapters are *small*." in (step.output / MARKDOWN_FILE).read_text(encoding="utf-8")


def test_a_missing_reading_is_named(tmp_path: Path) -> None:
    config = made_up.make_file(tmp_path, reading="words.md")
    with pytest.raises(InputError, match=r"evaluate: reading: no file .*words.md"):
        report_step(config)
