"""Topic models from text to their report by one command, and nothing twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairseq_ext.metrics.records import read_records
from tests.recipes.commands import run_experiment
from tests.recipes.topics.small_experiment import SYSTEMS, write_topic_experiment
from tests.recorded import recorded_results, results_of, shapes_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_topic_experiment(tmp_path_factory.mktemp("topics"))
    result = run_experiment(str(path))
    assert result.returncode == 0, result.stderr[-2000:]
    return path


def test_everything_is_measured_and_reported(experiment: Path) -> None:
    work = experiment.parent / "work"
    records = read_records(work / "report/records.jsonl")
    assert records.systems("perplexity") == list(SYSTEMS)
    base, steered = (records.of(name, "perplexity", "garden_ask")[0] for name in ("base", "steered"))
    assert steered.value < base.value
    assert steered.n == base.n  # the same text for both
    assert "LDA, 2 topics" in (work / "report/report.html").read_text(encoding="utf-8")


def test_the_report_is_tested_on_results_of_this_shape(experiment: Path) -> None:
    assert shapes_of(results_of(experiment)) == shapes_of(recorded_results("topics"))


@pytest.mark.parametrize(("key", "value", "state"), [("cpu", "false", "up to date"), ("top_k", "3", "build")])
def test_only_what_changes_a_result_is_measured_again(experiment: Path, key: str, value: str, state: str) -> None:
    other = experiment.with_name("other.yaml")
    other.write_text(re.sub(f"^  {key}: .*$", f"  {key}: {value}", experiment.read_text(), flags=re.MULTILINE))
    result = run_experiment(str(other), "--only", "topics", "--dry-run")
    runs = [line for line in result.stdout.splitlines() if "/topics/" in line]
    assert len(runs) == len(SYSTEMS)
    assert all(line.startswith(state) for line in runs)
