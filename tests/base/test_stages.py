"""The command line of stages; their choice and order on a real experiment is tested beside it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.stages import Stage, run_chosen
from fairseq_ext.base.steps import Step
from tests.base.test_steps_at_once import meet, nothing


def stage(output: Path, *inputs: Path, build: Callable[[Path], None] = nothing, early: bool = False) -> Stage:
    return Stage(output.name, lambda: [Step(output, inputs, {}, build)], early=early)


def test_only_the_chosen_stages_run(tmp_path: Path) -> None:
    run_chosen([stage(tmp_path / name) for name in ("one", "two", "three")], "two", "two")
    assert {path.parent.name for path in tmp_path.glob("*/step.json")} == {"two"}


def test_mistakes_of_late_stages_come_before_anything_runs(tmp_path: Path) -> None:
    def fail() -> list[Step]:
        raise InputError("no such set")

    with pytest.raises(InputError, match="no such set"):
        run_chosen([stage(tmp_path / "one"), Stage("two", fail)])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_with_several_jobs_trainings_of_neighbouring_stages_run_at_once(tmp_path: Path) -> None:
    wait = partial(meet, tmp_path / "meeting")
    a, b = (stage(tmp_path / name, build=wait, early=True) for name in "ab")
    # Its inputs are not there before both are done.
    c = stage(tmp_path / "c", tmp_path / "a", tmp_path / "b" / "step.json", early=True)
    run_chosen([a, b, c], jobs=2)
    assert (tmp_path / "c").is_dir()
