from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.patches.training import count_processes, settle_precision
from tests import toy


def options_of(data: Path, *extra: str) -> Any:
    return toy.composed(toy.train_args(data, *extra))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def test_bf16_on_a_cpu_is_bfloat16(data: Path) -> None:
    cfg = options_of(data, "--bf16")
    settle_precision(cfg)
    assert (cfg.common.bf16, cfg.common.tpu, str(cfg.task.cpu_precision)) == (False, False, "bfloat16")


@pytest.mark.usefixtures("gpu")
def test_bf16_on_a_gpu_is_fairseqs(data: Path) -> None:
    cfg = options_of(data, "--bf16")
    cfg.common.cpu = False
    settle_precision(cfg)
    assert (cfg.common.bf16, cfg.common.tpu, str(cfg.task.cpu_precision)) == (True, False, "float32")


@pytest.mark.parametrize("option", ["--fp16", "--amp"])
def test_what_only_a_gpu_has_is_refused(data: Path, option: str) -> None:
    with pytest.raises(InputError, match="needs a GPU"):
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
