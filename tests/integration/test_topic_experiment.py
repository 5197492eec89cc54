"""Topic models from text to their report by one command, and measured again by another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.topics.small_topic_experiment import SYSTEMS, write_topic_experiment
from tests.recorded import recorded_results, results_of, shapes_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_topic_experiment(tmp_path_factory.mktemp("topics"))
    result = run("-m", "fairseq_ext.experiments.run", str(path))
    assert result.returncode == 0, result.stderr[-2000:]
    return path


def test_everything_is_measured_and_reported(experiment: Path) -> None:
    work = experiment.parent / "work"
    assert sorted(path.name for path in (work / "topics").glob("[!.]*")) == sorted(SYSTEMS)
    record = json.loads((work / "topics/steered/topics.json").read_text())
    base = json.loads((work / "topics/base/topics.json").read_text())
    # The same text for both.
    for key in ("lines", "tokens", "cut"):
        assert record["texts"]["garden_ask"][key] == base["texts"]["garden_ask"][key]
    assert record["base"].keys() == {"bank_ask", "bank_do"}
    assert record["texts"]["garden_ask"]["nats"]["all"] < base["texts"]["garden_ask"]["nats"]["all"]
    page = (work / "report/report.html").read_text(encoding="utf-8")
    for title in ("Table 2. Coherence: garden_ask", "Table 3. Systems: garden_do", "Claims", "LDA, 2 topics"):
        assert title in page


def test_the_report_is_tested_on_results_of_this_shape(experiment: Path) -> None:
    assert shapes_of(results_of(experiment)) == shapes_of(recorded_results("topics"))


def test_what_is_measured_is_not_measured_again(experiment: Path) -> None:
    result = run("-m", "fairseq_ext.experiments.run", str(experiment), "--from", "topics", "--dry-run")
    lines = [line.rsplit(maxsplit=1) for line in result.stdout.splitlines()]
    assert {state for state, _ in lines} == {"up to date"}
    assert len(lines) == len(SYSTEMS) + 2 + 1
    shown = experiment.with_name("shown.yaml")
    shown.write_text(experiment.read_text().replace("samples: 2", "samples: 1"))
    result = run("-m", "fairseq_ext.experiments.run", str(shown), "--from", "topics")
    assert result.returncode == 0, result.stderr[-2000:]
    [made] = [line for line in result.stderr.splitlines() if "made anew: " in line or "started" in line]
    assert made.startswith("report: made anew: ")


def test_without_the_section_its_defaults_are_taken(experiment: Path) -> None:
    path = experiment.with_name("plain.yaml")
    path.write_text(experiment.read_text().partition("\ntopics:")[0] + "\n")
    result = run("-m", "fairseq_ext.experiments.run", str(path), "--from", "topics", "--dry-run")
    assert result.returncode == 0, result.stderr[-2000:]
    states = {line[12:].split()[0].rpartition("/")[2]: line.split()[0] for line in result.stdout.splitlines()}
    assert len(states) == len(SYSTEMS) + 2 + 1
    assert {states[name] for name in [*SYSTEMS, "report"]} == {"build"}
