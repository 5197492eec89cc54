"""fairseq-train, called by itself, starts from the checkpoint that it is told, or not at all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.patches.checkpoints import _restoring
from tests import toy


class Trainer:
    """As much of fairseq's as finds and reads a checkpoint."""

    checkpoint_suffix = ""

    def __init__(self, task: Any = None) -> None:
        self.task, self.loaded = task, ""
        self.cfg = SimpleNamespace(optimization=SimpleNamespace(max_update=0))

    def load_checkpoint(self, path: str, *_: Any, **__: Any) -> None:
        if Path(path).is_file():
            checkpoint_utils.load_checkpoint_to_cpu(path)
        self.loaded = path

    def get_train_iterator(self, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(n=0)

    def get_num_updates(self) -> int:
        return 0

    lr_step = lr_step_begin_epoch = get_train_iterator


def load(folder: Path, trainer: Trainer, **given: str) -> None:
    checkpoint_utils.load_checkpoint(CheckpointConfig(save_dir=str(folder / "save"), **given), trainer)


@pytest.mark.parametrize("option", ["restore_file", "finetune_from_model", "continue_once"])
def test_a_start_that_is_no_file_is_refused(option: str, tmp_path: Path) -> None:
    path = str(tmp_path / "missing.pt")
    with pytest.raises(InputError, match=rf"--{option.replace('_', '-')} {path}: not found"):
        load(tmp_path, Trainer(), **{option: path})


def test_a_training_may_begin_with_nothing(tmp_path: Path) -> None:
    trainer = Trainer()
    with pytest.raises(AttributeError):  # that of an epoch's iterator, which comes next
        load(tmp_path, trainer)
    assert trainer.loaded == str(tmp_path / "save" / "checkpoint_last.pt")


def test_an_error_at_the_start_is_one_line() -> None:
    """As that of an optimiser whose parameters were cut otherwise in earlier versions."""

    def fail(trainer: Any, path: str) -> None:
        raise ValueError("loaded state dict contains a parameter group\nthat is of another size")

    with pytest.raises(InputError, match=r"last\.pt: .* --reset-optimizer [^\n]*$"):
        _restoring(fail)(None, "last.pt")


def test_a_start_with_another_vocabulary_is_refused(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, _ = toy.make_task(data)
    kept = task.state_dict()
    kept["vocabulary"]["dict.pl.txt"] = "another"
    base = tmp_path / "base.pt"
    base.touch()
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", lambda path: {"task_state": kept})
    with pytest.raises(InputError, match=r"dict\.pl\.txt: not the one that the checkpoint was trained with"):
        load(tmp_path, Trainer(task), finetune_from_model=str(base))
