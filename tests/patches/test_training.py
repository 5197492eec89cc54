"""Trainings: where they start, how they use a CPU, and the one line of those that cannot begin or go on."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import BufferedIterator
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.distributed import utils as distributed_utils
from fairseq_cli import train

from fairseq_ext.base.errors import InputError
from fairseq_ext.patches import training
from fairseq_ext.patches.checkpoints import _restore
from fairseq_ext.patches.training import count_processes, settle_precision
from tests import toy


def options_of(data: Path, *extra: str) -> Any:
    return toy.composed(toy.train_args(data, *extra))


# On a CPU


@pytest.mark.parametrize("has_gpu", [False, True])
def test_bf16_is_bfloat16_on_a_cpu_and_fairseqs_on_a_gpu(
    data: Path, has_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    cfg = options_of(data, "--bf16")
    cfg.common.cpu = not has_gpu
    settle_precision(cfg)
    expected = "float32" if has_gpu else "bfloat16"
    assert (cfg.common.bf16, cfg.common.tpu, str(cfg.task.cpu_precision)) == (has_gpu, False, expected)


@pytest.mark.parametrize("option", ["--fp16", "--amp"])
def test_fp16_and_amp_need_a_gpu(data: Path, option: str) -> None:
    with pytest.raises(InputError, match=f"{option}: needs a GPU"):
        settle_precision(options_of(data, option))


def test_processes_are_those_that_are_asked_for(data: Path) -> None:
    assert count_processes(options_of(data), {}) == 1
    cfg = options_of(data, "--cpu-processes", "3")
    assert count_processes(cfg, {}) == 3
    assert count_processes(cfg, {"WORLD_SIZE": "2"}) == 1
    cfg.distributed_training.distributed_world_size = 2
    assert count_processes(cfg, {}) == 1
    with pytest.raises(InputError, match="--cpu-processes 0"):
        count_processes(options_of(data, "--cpu-processes", "0"), {})


# The start


def load(folder: Path, task: Any = None, **given: str) -> None:
    """Start as fairseq's trainer does."""
    trainer: Any = SimpleNamespace(task=task, checkpoint_suffix="", get_model=lambda: None)
    trainer.load_checkpoint = lambda path, *_, **__: checkpoint_utils.load_checkpoint_to_cpu(path)
    checkpoint_utils.load_checkpoint(CheckpointConfig(save_dir=str(folder / "save"), **given), trainer)


@pytest.mark.parametrize("option", ["restore_file", "finetune_from_model", "continue_once"])
def test_a_start_that_is_no_file_is_refused(option: str, tmp_path: Path) -> None:
    path = str(tmp_path / "missing.pt")
    with pytest.raises(InputError, match=rf"--{option.replace('_', '-')} {path}: not found"):
        load(tmp_path, **{option: path})


def check_start(folder: Path, model: Any, criterion: Any = None, random_base: bool = False, **given: str) -> None:
    options = SimpleNamespace(model=SimpleNamespace(random_base=random_base))
    trainer = SimpleNamespace(
        checkpoint_suffix="", cfg=options, get_model=lambda: model, get_criterion=lambda: criterion
    )
    training._check_start(CheckpointConfig(save_dir=str(folder), **given), trainer)


def test_a_random_base_is_refused_and_allowed(data: Path, tmp_path: Path) -> None:
    model = toy.make_model(*toy.make_task(data))
    with pytest.raises(InputError, match=r"--finetune-from-model: not given, .* or --random-base$"):
        check_start(tmp_path, model)
    check_start(tmp_path, model, random_base=True)
    for option in ("restore_file", "finetune_from_model", "continue_once"):
        check_start(tmp_path, model, **{option: "base.pt"})
    check_start(tmp_path, torch.nn.Linear(2, 2))
    (tmp_path / "checkpoint_last.pt").touch()
    check_start(tmp_path, model)


@pytest.mark.parametrize(
    ("arch", "criterion", "expected"),
    [
        ("transformer_gated_adapter_tiny", SimpleNamespace(), 1),
        ("transformer_gated_adapter_tiny", SimpleNamespace(gate_loss_weight=0.5), 0),
        ("transformer_domain_adapter_tiny", SimpleNamespace(), 0),
    ],
)
def test_gates_without_a_teacher_are_a_warning(
    arch: str, criterion: Any, expected: int, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = toy.make_model(*toy.make_task(data, arch=arch))
    check_start(tmp_path, model, criterion, random_base=True)
    assert sum("without a teacher" in record.message for record in caplog.records) == expected


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
        load(tmp_path, task, finetune_from_model=str(base))


def test_an_error_at_the_start_is_one_line() -> None:
    """As that of an optimiser whose parameters were cut otherwise in earlier versions."""
    fail = Mock(side_effect=ValueError("loaded state dict contains a parameter group\nthat is of another size"))
    with pytest.raises(InputError, match=r"last\.pt: .* --reset-optimizer [^\n]*$"):
        _restore(fail, None, "last.pt")


# The end


def start(data: Path, folder: Path, *arguments: str) -> None:
    config = options_of(
        data, "--save-dir", str(folder), "--max-update", "20", "--num-workers", "0", "--random-base", *arguments
    )
    distributed_utils.call_main(config, train.main)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--lr", "1e12"], r"update \d+: the loss or its gradient is not a number"),
        (["--max-tokens", "1"], "no sentence fits: --max-tokens 1 "),
        (["--update-freq", "0"], "--update-freq 0"),
    ],
)
def test_options_that_cannot_train_are_one_line(arguments: list[str], line: str, data: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=line):
        start(data, tmp_path, *arguments)


def test_a_damaged_index_is_named(data: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(data, tmp_path / "data"))
    index = next(damaged.glob("*/train.*.idx"))
    index.write_bytes(index.read_bytes()[:20])
    with pytest.raises(SystemExit, match=f"{index}: damaged"):
        start(damaged, tmp_path / "trained")


def test_threads_that_make_batches_end_before_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the patch, three of four programs that leave batches unfinished abort as they end."""
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(training.atexit, "register", at_exit.append)
    batches = BufferedIterator(10, range(100_000))
    assert [next(batches) for _ in range(20)] == list(range(20))
    assert batches._consumer.is_alive()
    at_exit[-1]()
    assert not batches._consumer.is_alive()


def test_checkpoints_are_copied_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training killed within fairseq's copy to checkpoint_last.pt must still find the old one there."""
    new, last = tmp_path / "checkpoint_best.pt", tmp_path / "checkpoint_last.pt"
    new.write_text("new")
    last.write_text("old")

    def killed(source: str, target: str) -> None:
        Path(target).write_text("ne")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fairseq.file_io.shutil.copyfile", killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoint_utils.PathManager.copy(str(new), str(last), overwrite=True)
    assert last.read_text() == "old"
    assert checkpoint_utils.PathManager.copy(str(new), str(last), overwrite=True)
    assert last.read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 2
