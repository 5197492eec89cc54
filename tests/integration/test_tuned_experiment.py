"""An experiment whose system is tuned, killed where it trains and chooses, and what is left of it in the end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.experiments.recurrent.small_experiment import COMMON, write_file, write_word_lm_experiment
from tests.integration import experiments


def kill_in_every_step(command: Sequence[str], steps: Iterable[str]) -> None:
    """Start a command again and again, and kill it when it tells that the next of these steps has started."""
    for step in steps:
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if line == f"{step}: started\n":
                    os.kill(process.pid, signal.SIGKILL)
        # A step may come to its end first.
        assert process.returncode in (-signal.SIGKILL, 0)


@pytest.mark.slow
def test_trials_choose_by_validation_and_are_run_once(tmp_path: Path) -> None:
    write_word_lm_experiment(tmp_path)
    standard = {"combination": "none", "embed-dim": 8, "max-epoch": 1, "seeds": [1, 2], "tune": {"lr": [1e-9, 1]}}
    experiment = write_file(
        tmp_path,
        kneser_ney={"order": 2},
        train={"common": {**COMMON, "tune": {"lr": [3, 4, 5]}}, "systems": {"standard": standard}},
        evaluate={"cpu": True},
    )
    command = [sys.executable, "-m", "fairseq_ext.cli", "run", str(experiment)]
    kill_in_every_step(command, ["standard.lr=1", "standard@1"])
    work = experiments.run_whole(experiment)
    systems = work / "systems"
    record = json.loads((systems / "standard@1/trials.json").read_text())
    still, learned = (trial["figure"] for trial in record["trials"])
    assert (record["metric"], record["chosen"]) == ("loss", "standard.lr=1")
    assert learned < still - 0.5
    best = [(systems / name / "checkpoint_best.pt").read_bytes() for name in ("standard@1", "standard.lr=1")]
    assert best[0] == best[1]
    assert "'lr': [1.0]" in (systems / "standard@2/train.log").read_text()
    report = (work / "report/report.md").read_text(encoding="utf-8")
    assert f"| standard.lr=1e-09 | standard | {still:.3f} | – |" in report
    assert f"| standard.lr=1 | standard | {learned:.3f} | yes |" in report
    experiments.check_nothing_is_left_to_do(experiment)
