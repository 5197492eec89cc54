"""fairseq's options are checked once, before any step runs; a mistake is named by its place. Files are inputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tests.fairseq_ready  # noqa: F401
from fairseq_ext.base import fairseq_options, steps
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_options import (
    FairseqCommand,
    check_commands,
    check_training_options,
    first_mistake,
    named_files,
)
from fairseq_ext.base.steps import Step, run_steps

TINY = ("--arch", "transformer_tiny")
TRAIN = ["--task", "multi_domain_translation", "--arch", "transformer_gated_adapter", "--optimizer", "adam"]


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("--lrr 0.1", "did you mean 'lr'?"),
        ("--lr 0.1.", "'0.1.'"),
        ("--lr", "one argument"),
        ("--lr 1 2", "by commas"),
        ("--optimizer adm", "did you mean 'adam'"),
        ("--help", "only print its help"),
    ],
)
def test_what_is_wrong_and_near_it_is_named(line: str, near: str) -> None:
    good = ("train", TRAIN)
    mistake = first_mistake([good, ("train", [*TRAIN, *line.split()]), ("train", ["--not-read"])])
    assert mistake is not None
    assert (mistake.command, mistake.option) == (1, line.split()[0])
    assert near in mistake.text


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
    inputs = {"a": [], "b": [folder / "a" / "f"]}
    return [
        Step(folder / name, inputs[name], {}, lambda out: (out / "f").touch(), commands=[command_of("--lr", lr)])
        for name, lr in (("a", "1"), ("b", "2"))
    ]


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (command_of("--lrr", "1"), r"x\.yaml: mix: lrr: "),
        (command_of(extra=("--cpu", "more")), "command line: --cpu: "),
    ],
)
def test_a_mistake_is_named_by_its_place(command: FairseqCommand, place: str) -> None:
    with pytest.raises(InputError, match=f"^{place}fairseq-train "):
        check_commands([command_of("--lr", "1"), command])


def test_nothing_is_built_before_a_mistake_in_the_last_step(tmp_path: Path) -> None:
    wrong = Step(tmp_path / "c", [], {}, lambda out: None, commands=[command_of("--lr", "fast")])
    with pytest.raises(InputError, match="lr: fairseq-train rejects"):
        run_steps([*steps_in(tmp_path), wrong])
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
    (tmp_path / "b" / "f").unlink()
    assert len(asked) == 2
    monkeypatch.setattr(steps, "_accepted", set())
    run_steps(steps_in(tmp_path), dry_run=True)
    assert [command[1][-1] for command in asked[-1]] == ["2"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a checkpoint, vectors and a directory named like an optimiser."""
    monkeypatch.chdir(tmp_path)
    for name in ("base.pt", "other.pt", "vectors.txt", "adam/notes", "models/lm.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["--finetune-from-model=base.pt", "--lr", "0.1"], ["base.pt"]),
        (["--restore-file", "missing.pt"], ["missing.pt"]),
        (["--restore-file", "checkpoint_last.pt"], []),
        (["--word-vectors", "vectors.txt"], ["vectors.txt"]),
        (["--path", "base.pt:other.pt"], ["base.pt", "other.pt"]),
        (["--choose-paths", "./models"], ["models"]),
        (["--optimizer", "adam", "--drop-path", "0.1", "--cpu"], []),
        (["--tensorboard-logdir", "models", "--log-file", "base.pt", "--gates-output", "other.pt"], []),
        (["--teacher-dir", "adam", "--path", "adam/notes"], ["adam"]),
    ],
)
def test_files_that_options_name(arguments: list[str], files: list[str], folder: Path) -> None:
    assert named_files(arguments, "mix") == [Path(name) for name in files]


@pytest.mark.parametrize(
    "arguments",
    [["--finetune-from-model", "a.pt", "--finetune-from-model=b.pt"], ["--no_save"], ["--lr", "1", "--save-dir=x"]],
)
def test_a_training_of_two_starts_or_without_a_result_is_refused(arguments: list[str]) -> None:
    with pytest.raises(InputError, match="^mix: --"):
        check_training_options(arguments, "mix")


def test_a_single_starting_checkpoint_is_accepted(folder: Path) -> None:
    check_training_options(["--finetune-from-model", "a.pt", "--restore-file", "checkpoint_last.pt"], "gad")
    with pytest.raises(InputError, match="^mix: --restore-file models"):
        named_files(["--restore-file", "models"], "mix")
