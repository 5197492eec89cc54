"""Trials: which are run, which is kept, what further seeds take, and what is done again when a grid grows."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import Step, run_steps
from fairseq_ext.experiments import tune as tuning
from fairseq_ext.experiments.config import Experiment, Run, expand, read_experiment
from fairseq_ext.experiments.train import BEST_CHECKPOINT, system_dir
from fairseq_ext.experiments.tune import choose, steps_of_runs


def runs_of(tune: dict[str, Any] | None, domains: tuple[str, ...] = (), **entry: Any) -> list[Run]:
    section = {"common": {"lr": 1.0, "tune": tune}, "systems": {"gad": {"clip-norm": 3, **entry}}}
    experiment = read_experiment(Experiment, {"work_dir": "w", "train": section}, Path("c.yaml"))
    return expand(experiment.systems["gad"], 1, domains)


def train(config: Any, log: list[str], run: Run) -> Step:
    """A training whose loss is how far its learning rate is from 0.03, and a little more with every seed."""
    options = dict(run.system.options)

    def build(folder: Path) -> None:
        log.append(run.name)
        if options["lr"] > 1:
            (folder / "train.log").write_text(f"{options['clip-norm']}Error: gradients are Nan/Inf\n")
            raise InputError("fairseq-train ended with status 1")
        loss = abs(options["lr"] - 0.03) + run.seed / 1000
        (folder / BEST_CHECKPOINT).write_text(json.dumps(loss))
        (folder / "train.log").write_text(f"{run.name} {options}")

    return Step(system_dir(config, run.name), [], {"system": options, "seed": run.seed}, build, resumable=True)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def outcomes(checkpoints: Sequence[Path]) -> tuple[str, bool, list[float | None]]:
        return "loss", False, [json.loads(path.read_text()) if path.is_file() else None for path in checkpoints]

    monkeypatch.setattr(tuning, "_outcomes", outcomes)
    return SimpleNamespace(work_dir=tmp_path)


def run_all(config: Any, runs: list[Run]) -> list[str]:
    """Run the steps, and return what was trained."""
    log: list[str] = []
    run_steps(steps_of_runs(config, runs, partial(train, config, log)))
    return log


def test_the_best_trial_is_the_first_run_and_further_seeds_take_its_values(config: Any) -> None:
    runs = runs_of({"lr": [0.01, 0.02, 0.1]}, seeds=[1, 2])
    assert run_all(config, runs) == ["gad.lr=0.01", "gad.lr=0.02", "gad.lr=0.1", "gad@2"]
    systems = config.work_dir / "systems"
    best, first, second = (systems / name for name in ("gad.lr=0.02", "gad@1", "gad@2"))
    for name in (BEST_CHECKPOINT, "train.log"):
        assert (first / name).read_bytes() == (best / name).read_bytes()
    assert json.loads((first / "chosen.json").read_text()) == {"lr": 0.02}
    assert "'lr': 0.02" in (second / "train.log").read_text()
    record = json.loads((first / "trials.json").read_text())
    assert record["chosen"] == "gad.lr=0.02"
    found = {trial["values"]["lr"]: round(trial["figure"], 3) for trial in record["trials"]}
    assert found == {0.01: 0.021, 0.02: 0.011, 0.1: 0.071}


def test_a_grown_grid_runs_its_new_trials_and_no_others(config: Any) -> None:
    run_all(config, runs_of({"lr": [0.02, 0.01]}, seeds=[1, 2]))
    # The choice stays, and with it the second seed; the order of the values makes no difference to trials.
    assert run_all(config, runs_of({"lr": [0.01, 0.1, "2e-2"]}, seeds=[1, 2])) == ["gad.lr=0.1"]
    assert len(json.loads((config.work_dir / "systems/gad@1/trials.json").read_text())["trials"]) == 3
    # Another choice is another second seed.
    assert run_all(config, runs_of({"lr": [0.01, 0.1, 0.02, 0.03]}, seeds=[1, 2])) == ["gad.lr=0.03", "gad@2"]


def test_every_domain_has_trials_of_its_own(config: Any) -> None:
    runs = runs_of({"lr": [0.01, 0.02]}, ("law", "med"), per_domain=True)
    names = [step.output.name for step in steps_of_runs(config, runs, partial(train, config, []))]
    assert names == [f"gad{trial}@{domain}" for domain in ("law", "med") for trial in (".lr=0.01", ".lr=0.02", "")]


def test_diverged_trials_lose_and_other_failures_stop(config: Any) -> None:
    runs = runs_of({"lr": [9, 0.02]}, **{"clip-norm": "FloatingPoint"})
    assert run_all(config, runs) == ["gad.lr=9", "gad.lr=0.02"]
    trials = json.loads((config.work_dir / "systems/gad/trials.json").read_text())["trials"]
    assert [trial["figure"] for trial in trials] == [None, pytest.approx(0.011)]
    assert run_all(config, runs) == []
    with pytest.raises(InputError, match="ended with status 1"):
        run_all(
            SimpleNamespace(work_dir=config.work_dir / "other"), runs_of({"lr": [9, 0.02]}, **{"clip-norm": "Memory"})
        )


def test_the_best_figure_is_chosen() -> None:
    assert choose([3, 1, 2], is_maximized=False, where="gad") == 1
    assert choose([3, 1, 2], is_maximized=True, where="gad") == 0
    assert choose([None, 2, 1, 1], is_maximized=False, where="gad") == 2
