"""The command line of stages; their choice and order on a real experiment is tested beside it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fairseq_ext.engine.stages import Stage, run_chosen
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.errors import InputError
from tests.engine.test_steps_at_once import meet, nothing


def stages_in(folder: Path) -> list[Stage]:
    def steps(name: str) -> list[Step]:
        return [Step(folder / name, [], {}, lambda output: (output / "made").touch())]

    return [Stage(name, lambda name=name: steps(name)) for name in ("one", "two", "three")]  # type: ignore[misc]


def test_only_the_chosen_stages_run(tmp_path: Path) -> None:
    run_chosen(stages_in(tmp_path), "two", "two")
    assert {path.parent.name for path in tmp_path.glob("*/made")} == {"two"}


def test_mistakes_of_late_stages_come_before_anything_runs(tmp_path: Path) -> None:
    def fail() -> list[Step]:
        raise InputError("no such set")

    stages = [*stages_in(tmp_path), Stage("four", fail)]
    with pytest.raises(InputError, match="no such set"):
        run_chosen(stages)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_with_several_jobs_trainings_of_neighbouring_stages_run_at_once(tmp_path: Path) -> None:
    wait = partial(meet, tmp_path / "meeting")
    stages = [
        Stage(name, lambda name=name: [Step(tmp_path / name, [], {}, wait)], early=True)  # type: ignore[misc]
        for name in "ab"
    ]
    inputs = [tmp_path / "a", tmp_path / "b" / "step.json"]  # are not there before both are done
    stages.append(Stage("c", lambda: [Step(tmp_path / "c", inputs, {}, nothing)], early=True))
    run_chosen(stages, jobs=2)
    assert (tmp_path / "c").is_dir()
