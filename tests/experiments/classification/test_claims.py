"""Findings are answered by what was measured: yes, no, not shown, or not measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fairseq_ext.experiments.classification import claims as claims
from fairseq_ext.experiments.classification.config import load_config
from fairseq_ext.experiments.classification.results import MAIN, TaskDesign, TaskResults, read_results
from fairseq_ext.report.content import Missing, Table
from fairseq_ext.report.records import Records
from tests.experiments.classification import made_up as made_up

Measured = tuple[TaskResults, TaskDesign]


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    config = made_up.make_experiment(tmp_path)
    return read_results(config), TaskDesign.of(config)


def shifted(results: TaskResults, method: str, points: float) -> TaskResults:
    """The same with another accuracy of one method everywhere."""
    moved = [
        replace(record, value=record.value + points)
        if record.system == method and record.metric.startswith(MAIN)
        else record
        for record in results.records
    ]
    return replace(results, records=Records(moved))


def test_every_finding_has_an_answer(measured: Measured) -> None:
    table = claims.findings(*measured)
    assert isinstance(table, Table)
    answers = {row.name: row.cells[1].text for row in table.groups[0][1]}
    assert answers == {
        "Adapters are within 0.4 points of full fine-tuning": "yes: adapters-64 75.5, full 75.7 (−0.2, p = 0.40); 8.3% "
        "of the parameters",
        "One base serves all tasks with few parameters more": "yes: adapters-64 1.25×, full 3.04× for 3 tasks",
        "Tuning the top layers needs more parameters for as much": "yes: adapters-64 75.5 with 250,000 parameters, "
        "full 75.7 with 12.2 times as many",
        "Layer norms alone are worse than full fine-tuning": "yes: 69.7, 75.7 (−6.0, p < 0.05), behind in 3 of 3 tasks",
    }


def test_adapters_that_are_behind_are_said_to_be(measured: Measured) -> None:
    results, design = measured
    worse = shifted(shifted(results, "adapters-64", -2.0), "adapters-8", -2.0)
    assert claims.adapters_are_close(worse, design).startswith("no: adapters-64 73.5, full 75.7 (−2.2")


def test_the_best_adapters_are_those_of_the_validation_sets(measured: Measured) -> None:
    results, design = measured
    best = claims.best_adapters(shifted(results, "adapters-8", 5.0), design)
    assert best is not None
    assert best.name == "adapters-8"


def test_fewer_top_layers_may_do(measured: Measured) -> None:
    results, design = measured
    # Trains more than the adapters; with top layers that were fewer, the answer would be no.
    assert "top-1 76.7 with 2.0 times as many" in claims.top_layers_need_more(shifted(results, "top-1", 5.0), design)
    behind = shifted(results, "full", -5.0)
    answer = claims.top_layers_need_more(behind, design)
    assert answer == "yes: adapters-64 75.5 with 250,000 parameters; no number of layers does as well (top-2 74.7)"


@pytest.mark.parametrize(
    ("points", "p", "verdict"), [(0.0, 0.4, "not shown: "), (7.0, 0.4, "no: "), (0.0, 0.01, "yes: ")]
)
def test_norms_are_worse_only_where_that_was_shown(measured: Measured, points: float, p: float, verdict: str) -> None:
    results, design = measured
    results = shifted(results, "norms", points)
    records = [replace(r, value=p) if (r.system, r.metric) == ("norms", "p") else r for r in results.records]
    results = replace(results, records=Records(records))
    assert claims.norms_are_worse(results, design).startswith(verdict)


def test_what_is_no_accuracy_is_not_tested(tmp_path: Path) -> None:
    made_up.make_experiment(tmp_path)
    path = tmp_path / "experiment.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    content["tasks"]["films"]["metrics"] = ["f1", "accuracy"]
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    config = load_config(path)
    results = read_results(config)
    assert "(−0.2); 8.3%" in claims.adapters_are_close(results, TaskDesign.of(config))
    assert results.records.mean("norms", "p", "films") is None
    assert results.records.mean("norms", "difference", "irony") == -6.0


def test_without_full_fine_tuning_nothing_is_compared(measured: Measured) -> None:
    results, design = measured
    alone = replace(design, methods={name: method for name, method in design.methods.items() if "adapters" in name})
    assert claims.adapters_are_close(results, alone) == ""
    assert claims.norms_are_worse(results, alone) == ""


def test_nothing_measured_is_said(measured: Measured) -> None:
    assert isinstance(claims.findings(TaskResults(), measured[1]), Missing)
