"""What the report says of trials: figures, the chosen value, unequal numbers, and values at the edge of a grid."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.tuning_report import TuningReport
from fairseq_ext.recipes.config import expand, read_systems
from fairseq_ext.report.content import Missing, Report, Section, Table, Text
from fairseq_ext.report.records import Record, Records

GRID = {"lr": [0.01, 0.02, 0.04]}
REST = Report("Report", "", [], [Section("rest", "Rest", [])], [], Records([Record("b", "other", "", "x", 1.0, "f")]))


@dataclass(frozen=True)
class Config:
    path: Path
    work_dir: Path
    seed: int = 1


def report_of(folder: Path, systems: Mapping[str, Mapping[str, Any]]) -> TuningReport:
    read = read_systems({"systems": systems}, "c.yaml: train")
    return TuningReport.of(Config(folder / "c.yaml", folder), read, lambda name: expand(read[name], 1, ("law", "med")))


def write_trials(folder: Path, run: str, figures: Mapping[float, float | None], chosen: float, **record: Any) -> None:
    trials = [{"run": f"{run}.lr={lr}", "values": {"lr": lr}, "figure": figure} for lr, figure in figures.items()]
    path = folder / "systems" / run / "trials.json"
    path.parent.mkdir(parents=True)
    found = {"metric": "loss", "is_maximized": False, "trials": trials, "chosen": f"{run}.lr={chosen}", **record}
    path.write_text(json.dumps(found))


def blocks_of(report: TuningReport) -> tuple[str, Table]:
    [section] = report.sections()
    text, table = section.blocks
    assert isinstance(text, Text)
    assert isinstance(table, Table)
    return text.markdown, table


def test_a_row_has_the_figure_of_every_trial_and_the_chosen_value(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"ad": {"tune": GRID}, "gad": {"tune": {"lr": [0.04, 0.08, 0.02]}, "seeds": [3, 4]}})
    write_trials(tmp_path, "ad", {0.01: 7.25, 0.02: 7.125, 0.04: None}, chosen=0.02)
    write_trials(tmp_path, "gad@3", {0.04: 7.0, 0.08: 6.5, 0.02: 6.75}, chosen=0.08)
    said, table = blocks_of(report)
    assert said == "The systems that start from no other had 3 trials each."
    assert table.columns == ["0.01", "0.02", "0.04", "0.08", "Chosen"]
    [(heading, rows)] = table.groups
    assert heading == "best validation loss, less is better"
    assert {row.name: [cell.text for cell in row.cells] for row in rows} == {
        "ad": ["7.250", "7.125", "no number", "–", "0.02"],
        "gad": ["–", "6.750", "7.000", "6.500", "0.08"],
    }
    assert [[cell.text for cell in row.cells if cell.is_best] for row in rows] == [["7.125"], ["6.500"]]
    assert {(record.system, record.run, record.value) for record in report.records()} >= {("ad", "ad.lr=0.01", 7.25)}
    assert len(report.records()) == 5


def test_the_best_at_the_edge_of_a_grid_is_named(tmp_path: Path) -> None:
    report = report_of(tmp_path, {name: {"tune": GRID} for name in ("low", "between", "high")})
    for name, chosen in {"low": 0.01, "between": 0.02, "high": 0.04}.items():
        write_trials(tmp_path, name, {0.01: 1, 0.02: 1, 0.04: 1}, chosen)
    _, table = blocks_of(report)
    [edge] = [note for note in table.below.notes if "edge" in note]
    assert edge.endswith("beyond: low (lr 0.01, the lowest); high (lr 0.04, the highest).")


def test_unequal_numbers_of_trials_are_said_of_systems_with_one_start(tmp_path: Path) -> None:
    one = {"from": "base"}
    report = report_of(
        tmp_path,
        {"base": {}, "ad": {**one, "tune": GRID}, "gad": {**one, "tune": {"lr": [1, 2]}}, "ft": one, "tag": {**one}},
    )
    [section] = report.sections()
    text, missing = section.blocks
    assert isinstance(text, Text)
    start = "**Not tuned alike:** the systems that start from base had unequal numbers of trials"
    assert text.markdown == f"{start} (ad: 3; gad: 2; ft, tag: 1)."
    assert isinstance(missing, Missing)


def test_every_domain_has_a_row_and_metrics_stay_apart(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"ft": {"tune": GRID, "per_domain": True}})
    write_trials(tmp_path, "ft@law", {0.01: 81.5, 0.02: 83.25}, 0.02, metric="accuracy", is_maximized=True)
    write_trials(tmp_path, "ft@med", {0.01: 2.5, 0.02: 3.5}, 0.01)
    _, table = blocks_of(report)
    assert [(heading, [row.name for row in rows]) for heading, rows in table.groups] == [
        ("best validation accuracy, more is better", ["ft, law"]),
        ("best validation loss, less is better", ["ft, med"]),
    ]  # fmt: skip


def test_options_that_are_tuned_together_have_a_table_of_their_own(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"ad": {"tune": {"lr": [1, 2], "dropout": [0.5]}}, "gad": {"tune": {"lr": [1, 2]}}})
    write_trials(tmp_path, "ad", {1: 3.0}, 1, trials=[
        {"run": "ad.lr=1", "values": {"lr": lr, "dropout": 0.5}, "figure": 3.0} for lr in (1, 2)
    ])  # fmt: skip
    write_trials(tmp_path, "gad", {1: 3.0, 2: 4.0}, 1)
    [section] = report.sections()
    titles = [block.title for block in section.blocks if isinstance(block, Table)]
    assert [title.partition(", by ")[2] for title in titles] == ["lr and dropout", "lr"]


def test_a_report_without_tuning_is_as_it_was(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"ad": {}})
    assert (report.sections(), report.records()) == ([], [])
    step = report.step([], None, {"version": 1}, lambda: REST)
    assert step.options == report_of(tmp_path, {}).step([], None, {"version": 1}, lambda: REST).options
    assert "tuning" not in step.options


def test_the_reports_last_section_is_that_on_tuning(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"ad": {"tune": GRID}})
    write_trials(tmp_path, "ad", {0.01: 7.25, 0.02: 7.125}, chosen=0.02)
    step = report.step([], None, {"version": 1}, lambda: REST)
    assert step.inputs == [tmp_path / "systems/ad/trials.json"]
    assert step.options["tuning"][1] == [["ad", None, 3]]
    step.build(tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert 0 < text.index("## Rest") < text.index("## Tuning") < text.index("7.125")
    runs = [json.loads(line)["run"] for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert runs == ["ad.lr=0.01", "ad.lr=0.02", "other"]
