"""The command line of stages; their choice and order on a real experiment is tested beside it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fairseq_ext.engine.stages import Stage, run_chosen, stage_parser
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.errors import InputError
from tests.engine.test_pools import meet, nothing


def stages_in(folder: Path) -> list[Stage]:
    def steps(name: str) -> list[Step]:
        return [Step(folder / name, [], {}, lambda output: (output / "made").touch())]

    return [Stage(name, lambda name=name: steps(name)) for name in ("one", "two", "three")]  # type: ignore[misc]


def run(folder: Path, *arguments: str) -> None:
    options = stage_parser("x", "y").parse_args(["file.yaml", *arguments])
    run_chosen(stages_in(folder), options)


def test_only_the_chosen_stages_run(tmp_path: Path) -> None:
    run(tmp_path, "--from", "two")
    assert {path.parent.name for path in tmp_path.glob("*/made")} == {"two", "three"}


def test_a_dry_run_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "--only", "three", "--dry-run")
    assert capsys.readouterr().out.split() == ["build", str(tmp_path / "three")]
    assert not list(tmp_path.iterdir())


def test_mistakes_of_late_stages_come_before_anything_runs(tmp_path: Path) -> None:
    def fail() -> list[Step]:
        raise InputError("no such set")

    stages = [*stages_in(tmp_path), Stage("four", fail)]
    with pytest.raises(InputError, match="no such set"):
        run_chosen(stages, stage_parser("x", "y").parse_args(["file.yaml"]))
    assert not list(tmp_path.iterdir())


def test_jobs_are_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "--only", "one", "--jobs", "2")
    assert (tmp_path / "one" / "made").is_file()
    for wrong in ("0", "-1", "two", "1.5"):
        with pytest.raises(SystemExit):
            run(tmp_path, "--jobs", wrong)
        assert f"'{wrong}' is no number" in capsys.readouterr().err


@pytest.mark.slow
def test_with_several_jobs_trainings_of_neighbouring_stages_run_at_once(tmp_path: Path) -> None:
    wait = partial(meet, tmp_path / "meeting")
    stages = [
        Stage(name, lambda name=name: [Step(tmp_path / name, [], {}, wait)], trains=True)  # type: ignore[misc]
        for name in "ab"
    ]
    stages.append(Stage("c", lambda: [Step(tmp_path / "c", [tmp_path / "a", tmp_path / "b"], {}, nothing)]))
    run_chosen(stages, stage_parser("x", "y").parse_args(["file.yaml", "--jobs", "2"]))
    assert (tmp_path / "c").is_dir()
