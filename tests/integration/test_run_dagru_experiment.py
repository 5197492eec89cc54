"""Word language models from text to their report by one command, and what holds of the figures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ext.metrics.records import Record, read_records
from tests import toy
from tests.recipes.recurrent.small_experiment import write_word_lm_experiment
from tests.recorded import recorded_results, results_of, shapes_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
RUNS = ("kneser-ney", "standard", "fixed", "dagru@1", "dagru@2")


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_word_lm_experiment(tmp_path_factory.mktemp("words"))
    result = run("fairseq_ext.cli", "run", str(path))
    assert result.returncode == 0, result.stderr[-2000:]
    return path


def perplexity(experiment: Path, name: str, split: str) -> Record:
    records = read_records(experiment.parent / "work/perplexity" / name / "records.jsonl")
    [found] = [record for record in records if (record.metric, record.domain) == ("perplexity", split)]
    return found


def test_everything_is_made_and_made_once(experiment: Path) -> None:
    result = run("fairseq_ext.cli", "run", str(experiment), "--dry-run")
    assert {line.split("/")[0].strip() for line in result.stdout.splitlines()} == {"up to date"}
    page = (experiment.parent / "work/report/report.html").read_text(encoding="utf-8")
    assert "Table 2. Perplexity" in page


def test_all_models_are_measured_on_the_same_tokens(experiment: Path) -> None:
    lines = (experiment.parent / "test.txt").read_text(encoding="utf-8").splitlines()
    tokens = sum(len(line.split()) + 1 for line in lines)
    for name in RUNS:
        measured = perplexity(experiment, name, "test")
        assert measured.n == tokens
        # Of twenty words, and the end: all have learned something.
        assert 1 < measured.value < 15


def test_perplexity_is_fairseqs(experiment: Path) -> None:
    """In one row, as fairseq-eval-lm reads without a batch size."""
    work = experiment.parent / "work"
    result = run(
        "fairseq_cli.eval_lm", str(work / "data-bin"), "--user-dir", toy.USER_DIR, "--cpu", "--path",
        str(work / "systems/dagru@1/checkpoint_best.pt"), "--task", "contiguous_language_modeling",
        "--tokens-per-sample", "7", "--gen-subset", "test",
    )  # fmt: skip
    found = re.search(r"Perplexity: ([\d.]+)", result.stdout + result.stderr)
    assert found is not None, result.stderr[-2000:]
    assert perplexity(experiment, "dagru@1", "test").value == pytest.approx(float(found[1]), abs=0.01)


def test_the_report_is_tested_on_results_of_this_shape(experiment: Path) -> None:
    assert shapes_of(results_of(experiment)) == shapes_of(recorded_results("recurrent"))
