"""Classifiers from text and tables to their report by one command, and what holds of trainings and figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.test_command_lines import weights
from tests.recipes.classification.small_experiment import write_short_classification_experiment
from tests.recipes.commands import run_experiment
from tests.recorded import recorded_results, results_of, shapes_of

pytestmark = pytest.mark.slow

RUNS = {"base", "full@place", "full@size", "top@verb", "adapters@place", "adapters@same"}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_short_classification_experiment(tmp_path_factory.mktemp("tasks"))
    result = run_experiment(str(path))
    assert result.returncode == 0, result.stderr[-2000:]
    return path


def test_everything_is_made_and_made_once(experiment: Path) -> None:
    result = run_experiment(str(experiment), "--dry-run")
    assert {line.split("/")[0].strip() for line in result.stdout.splitlines()} == {"up to date"}
    folder = experiment.parent / "work/systems"
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == RUNS
    log = (folder / "adapters@place/train.log").read_text(encoding="utf-8")
    assert re.findall(r"valid on 'valid' subset .*accuracy ([\d.]+)", log)
    assert "num_updates 30" in log  # 120 sentences, batches of 8, twice
    page = (experiment.parent / "work/report/report.html").read_text(encoding="utf-8")
    assert "Tables 1 and 2. Results on the test sets" in page


def test_a_sequence_keeps_its_earlier_task(experiment: Path) -> None:
    folder = experiment.parent / "work"
    names, first = (weights(folder / f"systems/adapters@{task}/checkpoint_best.pt") for task in ("same", "place"))
    assert {"place", "same"} <= {name.split(".")[1] for name in names if name.startswith("classification_heads.")}
    of_place = [name for name in first if ".place." in name]
    assert of_place
    assert all(bool((names[name] == first[name]).all()) for name in of_place)


def test_the_report_is_tested_on_results_of_this_shape(experiment: Path) -> None:
    assert shapes_of(results_of(experiment)) == shapes_of(recorded_results("classification"))
