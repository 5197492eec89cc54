from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairseq_ext.engine import option_files
from fairseq_ext.engine.option_files import check_training_options, named_files, options_in
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.config import Experiment, Run, System
from fairseq_ext.recipes.train import train_step


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a checkpoint, vectors and a directory named like an optimiser."""
    monkeypatch.chdir(tmp_path)
    for name in ("base.pt", "other.pt", "vectors.txt", "adam/notes", "models/lm.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_options_and_their_values() -> None:
    arguments = ["data", "--cpu", "--lr", "0.1", "0.2", "--finetune_from_model=a.pt", "--eval-bleu"]
    assert list(options_in(arguments)) == [
        ("cpu", ""), ("lr", "0.1"), ("lr", "0.2"), ("finetune-from-model", "a.pt"), ("eval-bleu", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["--finetune-from-model", "base.pt"], ["base.pt"]),
        (["--finetune-from-model=base.pt", "--lr", "0.1"], ["base.pt"]),
        (["--restore-file", "missing.pt"], ["missing.pt"]),
        (["--restore-file", "checkpoint_last.pt"], []),
        (["--word-vectors", "vectors.txt"], ["vectors.txt"]),
        (["--decoder-embed-path", "missing.vec"], ["missing.vec"]),
        (["--path", "base.pt:other.pt"], ["base.pt", "other.pt"]),
        (["--choose-paths", "./models"], ["models"]),
        (["--optimizer", "adam", "--drop-path", "0.1", "--cpu"], []),
        (["--tensorboard-logdir", "models", "--log-file", "base.pt", "--gates-output", "other.pt"], []),
        (["--teacher-dir", "adam", "--path", "adam/notes"], ["adam"]),
        (["--tree-json", '{"a": ' + "1" * 9999], []),
    ],
)
def test_files_that_options_name(arguments: list[str], files: list[str], folder: Path) -> None:
    assert named_files(arguments, "mix") == [Path(name) for name in files]


def test_what_is_known_is_not_named_again(folder: Path) -> None:
    arguments = ["--path", str(folder / "models" / "lm.pt"), "--word-vectors", "vectors.txt"]
    assert named_files(arguments, "mix", [folder / "models"]) == [Path("vectors.txt")]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--no_save"], "--no-save"),
        (["--lr", "1", "--save-dir=x"], "--save-dir"),
        (["--disable-validation"], "--disable-validation"),
        (["--finetune-from-model", "a.pt", "--finetune-from-model=b.pt"], r"--finetune-from-model a\.pt and "),
    ],
)
def test_a_training_without_its_result_or_with_two_starts_is_refused(arguments: list[str], named: str) -> None:
    with pytest.raises(InputError, match=f"^mix: {named}"):
        check_training_options(arguments, "mix")


def test_one_start_is_a_checkpoint(folder: Path) -> None:
    check_training_options(["--finetune-from-model", "a.pt", "--restore-file", "checkpoint_last.pt"], "gad")
    with pytest.raises(InputError, match="^mix: --restore-file models"):
        named_files(["--restore-file", "models"], "mix")


def test_a_training_depends_on_the_files_of_its_options_and_makes_a_checkpoint(folder: Path) -> None:
    config = Experiment(work_dir=folder)
    run = Run("mix", System(name="mix"), seed=1)
    step = train_step(config, run, [folder / "adam"], ["--finetune-from-model", "base.pt"], {})
    assert step.inputs == [folder / "adam", Path("base.pt")]
    assert step.results == ["checkpoint_best.pt"]


def test_the_page_on_steps_names_the_options_that_are_refused() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "steps.md").read_text(encoding="utf-8")
    listed = re.search(r"options that would keep it from that\s+\(([^)]*)\)", page)
    assert listed is not None
    assert set(re.findall(r"`([^`]+)`", listed[1])) == set(option_files._WITHOUT_RESULT)
