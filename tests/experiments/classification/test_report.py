"""The report of made-up figures says them, in the paper's tables and pictures, and what is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.experiments.classification.report import make_report, report_step
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Cell, Missing, Picture, Table
from fairseq_ext.report.writing import MARKDOWN_FILE, PAGE_FILE
from tests.experiments.classification import made_up as made_up

Blocks = dict[str, Table | Missing | Picture]


@pytest.fixture
def blocks(tmp_path: Path) -> Blocks:
    """Everything with a title."""
    report = make_report(made_up.make_experiment(tmp_path))
    return {block.title: block for section in report.sections for block in section.blocks if hasattr(block, "title")}  # type: ignore[misc,union-attr]


def rows_of(block: object) -> dict[str, list[Cell]]:
    assert isinstance(block, Table)
    return {row.name: list(row.cells) for _, rows in block.groups for row in rows}


def test_all_tables_and_pictures_are_there(blocks: Blocks) -> None:
    assert list(blocks) == [
        "The paper’s findings",
        "Tables 1 and 2. Results on the test sets",
        "F1 on the test sets",
        "Main metrics on the validation sets",
        "Figures 1 and 3. Distance to full fine-tuning by trained parameters",
        "Figure 4. Results by trained parameters",
        "Figure 6, left. Adapters of spans of layers removed",
        "Figure 6, right. Sweep of adapter-init-scale",
        "Tasks one after another: adapters-64@1",
        "Tasks one after another: adapters-64@2",
        "Table 3. The tasks",
    ]
    assert not [title for title, block in blocks.items() if isinstance(block, Missing)]


def test_results_are_those_of_the_records(blocks: Blocks) -> None:
    table = blocks["Tables 1 and 2. Results on the test sets"]
    rows = rows_of(table)
    assert table.columns == ["Trained", "of base", "In all", "films", "questions", "irony", "average"]  # type: ignore[union-attr]
    assert [cell.text for cell in rows["top-2"]] == ["940,000", "31%", "1.64×", "79.0", "84.0", "61.0", "74.7"]
    # All of the base three times, and three heads.
    assert rows["full"][2].text == "3.04×"
    # The base once, and what is trained three times.
    assert rows["adapters-8"][:3] == [Cell("77,000"), Cell("2.6%"), Cell("1.08×")]
    assert [cell.is_best for cell in rows["full"]] == [False] * 3 + [True] * 4
    assert rows["norms"][3].mark == "▼"
    assert rows["adapters-8"][3].mark == ""


def test_a_method_of_some_tasks_has_no_average(tmp_path: Path) -> None:
    config = made_up.make_experiment(tmp_path)
    (config.work_dir / "predictions/top-2@irony/metrics.json").unlink()
    (results,) = [s for s in make_report(config).sections if s.anchor == "results"]
    cells = [cell.text for cell in rows_of(results.blocks[0])["top-2"]]
    assert cells == ["940,000", "31%", "–", "79.0", "84.0", "–", "–"]


def test_seeds_are_averaged(blocks: Blocks) -> None:
    films, average = (rows_of(blocks["Tables 1 and 2. Results on the test sets"])["adapters-64"][n] for n in (3, 6))
    assert (films.text, films.note) == ("79.8", "±0.7")
    assert (average.text, average.note) == ("75.5", "±0.7")


def test_systems_are_grouped_by_what_becomes_of_the_base(blocks: Blocks) -> None:
    table = blocks["Tables 1 and 2. Results on the test sets"]
    groups = [[row.name for row in rows] for _, rows in table.groups]  # type: ignore[union-attr]
    assert groups == [["full", "top-1", "top-2"], ["norms", "adapters-8", "adapters-64"]]


def test_other_metrics_say_what_they_are(blocks: Blocks) -> None:
    table = blocks["F1 on the test sets"]
    assert rows_of(table)["full"] == [
        Cell("78.0", is_best=True),
        Cell("83.0", is_best=True),
        Cell("60.0", is_best=True),
    ]
    notes = " ".join(table.below.notes)  # type: ignore[union-attr]
    assert "films: F1 of 'pos'; questions: F1, averaged over the 6 labels" in notes


def test_tasks_are_described(blocks: Blocks) -> None:
    assert [cell.text for cell in rows_of(blocks["Table 3. The tasks"])["questions"]] == [
        "6,000",
        "800",
        "1,000",
        "6",
        "52.0",
    ]


def test_a_sequence_tells_every_task(blocks: Blocks) -> None:
    rows = rows_of(blocks["Tasks one after another: adapters-64@1"])
    assert [cell.text for cell in rows["1. films"]] == ["equal, bit for bit", "0", "1,800"]
    assert rows["3. irony"][0].text == "the last"


def test_lead_names_the_best_adapters(tmp_path: Path) -> None:
    report = make_report(made_up.make_experiment(tmp_path))
    assert report.lead == (
        "adapters-64, the best adapters on the validation sets, reach 75.5 on the test sets of 3 tasks on average, and "
        "train 8.3% of the base’s parameters for each; full reaches 75.7."
    )
    assert ("Parameters of the base", "3,000,000") in report.tiles
    # Six methods in three tasks, one of them twice; five scales for two tasks.
    assert ("Trainings", str(7 * 3 + 5 * 2)) in report.tiles


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    report = make_report(made_up.make_file(tmp_path))
    assert report.lead == "Nothing has been measured yet."
    assert all(isinstance(block, Missing) for section in report.sections for block in section.blocks)


def test_page_and_markdown_have_the_same_figures(tmp_path: Path) -> None:
    (tmp_path / "words.md").write_text("Adapters are *small*.\n", encoding="utf-8")
    config = made_up.make_experiment(tmp_path, reading="words.md")
    step = report_step(config)
    run_steps([step])
    files = {path.name: path.read_text(encoding="utf-8") for path in step.output.iterdir() if path.suffix != ".json"}
    assert {"trade-off.svg", "trade-off-tasks.svg", "layers.svg", "sweep.svg"} <= files.keys()
    assert "Adapters are *small*." in files[MARKDOWN_FILE]
    for text in (files[PAGE_FILE], files[MARKDOWN_FILE]):
        assert re.search(r"\b1\.64×", text)
        assert "bit for bit" in text
    assert report_step(config).options == step.options


def test_a_new_record_makes_the_report_anew(tmp_path: Path) -> None:
    config = made_up.make_experiment(tmp_path)
    before = report_step(config)
    (config.work_dir / "analysis/layers/layers.json").unlink()
    assert report_step(config).options != before.options


def test_a_missing_reading_is_named(tmp_path: Path) -> None:
    config = made_up.make_file(tmp_path, reading="words.md")
    with pytest.raises(InputError, match=r"evaluate: reading: no file .*words.md"):
        report_step(config)
