"""Commands are checked together, once, before any step runs, and a mistake is named by where it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.engine import fairseq_options, steps
from fairseq_ext.engine.fairseq_options import FairseqCommand, check_commands
from fairseq_ext.engine.steps import Step, run_steps
from fairseq_ext.inputs.errors import InputError

TINY = ("--arch", "transformer_tiny")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Any]]:
    """The commands that fairseq is asked about, by call; it takes them all, and has been asked of none before."""
    calls: list[Sequence[Any]] = []
    monkeypatch.setattr(fairseq_options, "first_mistake_in", calls.append)
    monkeypatch.setattr(steps, "_accepted", set())
    return calls


def command_of(*arguments: str, extra: tuple[str, ...] = ()) -> FairseqCommand:
    return FairseqCommand("train", (*TINY, *arguments), lambda option: f"x.yaml: mix: {option}", extra)


def steps_in(folder: Path) -> list[Step]:
    """Two trainings, the second of which starts from the first."""
    first = Step(folder / "a", [], {}, lambda out: (out / "f").touch(), commands=[command_of("--lr", "1")])
    second = Step(
        folder / "b", [folder / "a" / "f"], {}, lambda out: (out / "f").touch(), commands=[command_of("--lr", "2")]
    )
    return [first, second]


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (command_of("--lrr", "1"), r"x\.yaml: mix: lrr: "),
        (command_of("--lr", "1", extra=("--max_update", "1")), "command line: --max_update: "),
        (command_of("--lr", "1", extra=("more",)), "command line: "),
    ],
)
def test_a_mistake_is_named_by_its_place(command: FairseqCommand, place: str) -> None:
    with pytest.raises(InputError, match=f"^{place}fairseq-train "):
        check_commands([command_of("--lr", "1"), command])


def test_nothing_is_built_before_a_mistake_in_the_last_step(tmp_path: Path) -> None:
    wrong = Step(tmp_path / "c", [], {}, lambda out: None, commands=[command_of("--lr", "fast")])
    for dry_run in (False, True):
        with pytest.raises(InputError, match="lr: fairseq-train expects a number"):
            run_steps([*steps_in(tmp_path), wrong], dry_run=dry_run)
    assert not list(tmp_path.iterdir())


def test_what_is_finished_equal_or_accepted_is_not_asked_about(
    tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_commands([])
    check_commands([command_of("--lr", "1"), command_of("--lr", "1"), command_of("--lr", "2")])
    steps.check_options(steps_in(tmp_path))  # of all stages together
    run_steps(steps_in(tmp_path))
    assert [len(commands) for commands in asked] == [2, 2]
    monkeypatch.setattr(steps, "_accepted", set())  # as in another process
    run_steps(steps_in(tmp_path))
    assert len(asked) == 2
    (tmp_path / "b" / "f").unlink()
    run_steps(steps_in(tmp_path), dry_run=True)
    assert len(asked) == 2
    monkeypatch.setattr(steps, "_accepted", set())
    run_steps(steps_in(tmp_path))
    assert [command[1][0][-1] for command in asked[-1]] == ["2"]


def test_only_the_first_of_several_processes_asks(
    tmp_path: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    steps.check_options(steps_in(tmp_path))
    assert not asked
    monkeypatch.setenv("RANK", "0")
    steps.check_options(steps_in(tmp_path))
    assert len(asked) == 1


def test_a_reader_that_fails_is_no_silent_yes(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(fairseq_options, "_READER", "raise SystemExit('no fairseq here')")
    with pytest.raises(InputError, match="fairseq's parser of options ended with status 1; the reason is above"):
        check_commands([command_of("--lr", "1")])
    assert "no fairseq here" in capfd.readouterr().err
