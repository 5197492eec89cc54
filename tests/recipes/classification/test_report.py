"""The report: the records of a tiny real run to the last digit, one rendered page, and tables of chosen values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairseq_ext.classifiers.task_data import TaskFacts
from fairseq_ext.engine.steps import run_steps
from fairseq_ext.metrics.records import Records
from fairseq_ext.recipes.classification.config import Classification
from fairseq_ext.recipes.classification.measurement import MAJORITY, records_of
from fairseq_ext.recipes.classification.report import page, report
from tests.recipes.classification.small_experiment import (
    load,
    write_classification_experiment,
    write_short_classification_experiment,
)
from tests.recorded import restore

TASK = {"from": "base", "arch": "roberta_houlsby_adapter_small", "batch-size": 32, "max-epoch": 3}
SYSTEMS = {
    "base": {"arch": "roberta_small"},
    "full": {**TASK, "tuning": "full"},
    "top-1": {**TASK, "tuning": "top", "top-layers": 1},
    "top-2": {**TASK, "tuning": "top", "top-layers": 2},
    "norms": {**TASK, "tuning": "norms"},
    "adapters-8": {**TASK, "bottleneck-dim": 8},
    "adapters-64": {**TASK, "bottleneck-dim": 64, "seeds": [1, 2]},
}
FACTS = TaskFacts("classification", ["neg", "pos"], 1, {"train": 6000, "valid": 800, "test": 1000}, {})
FULL = {"films": 0.80, "questions": 0.85, "irony": 0.62}
# Points above full fine-tuning, and trained parameters besides the head.
GAINS = {"full": (0.0, 3_000_000), "top-1": (-4.0, 450_000), "top-2": (-1.0, 900_000), "norms": (-6.0, 7_000),
         "adapters-8": (-1.2, 37_000), "adapters-64": (-0.2, 210_000)}  # fmt: skip


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Classification:
    path = write_short_classification_experiment(tmp_path_factory.mktemp("tasks"))
    found: Classification = restore("classification", path)
    run_steps([report(found)])
    return found


@pytest.fixture
def made_up(tmp_path: Path) -> tuple[Classification, Records]:
    """An experiment that never ran, with records."""
    tasks = {name: {"train": f"{name}.tsv", "metrics": ["accuracy", "f1"]} for name in FULL}
    config = load(write_classification_experiment(tmp_path, tasks=tasks, train={"systems": SYSTEMS}))
    records = []
    for run in config.task_runs:
        gain, trained = GAINS[run.system.name]
        accuracy = FULL[str(run.domain)] + (gain + {"1": -0.5, "2": 0.5}.get(run.name.split("@")[-1], 0)) / 100
        sets = {split: {"accuracy": accuracy, "f1": accuracy - 0.02, MAJORITY: 0.52} for split in ("valid", "test")}
        changes_base = run.system.name.startswith(("full", "top"))
        parameters = {"base": 3_000_000, "base_trained": trained if changes_base else 0, "trained": trained + 40_000}
        records += records_of(run, FACTS, sets, parameters)
    return config, Records(records)


def cells(text: str, title: str, row: str) -> list[str]:
    """The cells of a row of the table of a title."""
    [line] = re.findall(rf"^\| {row} \|.*$", text.partition(f"### {title}")[2].partition("\n###")[0], re.MULTILINE)
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_parameters_and_scores_are_compared(made_up: tuple[Classification, Records]) -> None:
    text, title = page(*made_up).markdown(), "Tables 1 and 2"
    assert cells(text, title, "top-2") == ["top", "940,000", "31.3", "1.64", "79.0", "84.0", "61.0", "74.7"]
    # All of the base three times, and three heads.
    assert cells(text, title, "full")[3] == "3.04"
    # The base once, and what is trained three times.
    assert cells(text, title, "adapters-8")[1:4] == ["77,000", "2.57", "1.08"]
    assert cells(text, title, "adapters-64")[4:] == ["79.8 ± 0.7", "84.8 ± 0.7", "61.8 ± 0.7", "75.5 ± 0.7"]
    assert cells(text, "Other metrics", "full") == ["**78.0**", "**83.0**", "**60.0**"]
