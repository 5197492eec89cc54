"""Training without a GPU: in several processes if asked for, and in the half precision that a CPU has.

fairseq starts one process a GPU, and none on a CPU; it takes ``--bf16`` for an order to use a TPU, and ``--fp16`` and
``--amp`` on a CPU fail at the first overflow, or do nothing.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils
from omegaconf import DictConfig, open_dict

from fairseq_ext.engine.children import end_with_parent
from fairseq_ext.engine.shared_means import SharedMeans, shared_file
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.patches.exchanged_gradients import MEANS

_log = logging.getLogger("fairseq_cli.train")
_LOOPBACK = "lo" if sys.platform.startswith("linux") else "lo0"


def train_on_cpus_as_asked() -> None:
    """Let ``fairseq-train`` heed ``--cpu-processes``, and ``--bf16``, ``--fp16`` and ``--amp`` on a CPU."""
    if not hasattr(distributed_utils.call_main, "trains_on_cpus"):
        distributed_utils.call_main = _minding_cpus(distributed_utils.call_main)
        distributed_utils.call_main.trains_on_cpus = True  # type: ignore[attr-defined]


def _minding_cpus(call_main: Callable[..., Any]) -> Callable[..., Any]:
    def call(cfg: DictConfig, main: Callable[..., Any], **kwargs: Any) -> Any:
        if Path(main.__code__.co_filename).name != "train.py":
            return call_main(cfg, main, **kwargs)
        settle_precision(cfg)
        count = count_processes(cfg)
        return _train_together(cfg, main, count) if count > 1 else call_main(cfg, main, **kwargs)

    return call


def settle_precision(cfg: DictConfig) -> None:
    """Turn what options of GPUs ask of a CPU into what it has.

    Raises:
        InputError: naming an option that a CPU cannot do.
    """
    common = cfg.common
    with open_dict(cfg):
        if common.bf16 and common.tpu and find_spec("torch_xla") is None:
            common.tpu = False  # --bf16 implies it, and on a GPU must not
        if common.tpu or not _is_on_cpu(cfg):
            return
        for option in ("fp16", "memory_efficient_fp16", "amp"):
            if common[option]:
                raise InputError(f"--{option.replace('_', '-')}: is for GPUs; on a CPU give --cpu-precision bfloat16")
        if common.bf16:
            if "cpu_precision" not in cfg.task:
                raise InputError(f"--bf16: task {cfg.task._name} does not train so on a CPU; leave it out")
            common.bf16 = common.memory_efficient_bf16 = False
            cfg.task.cpu_precision = "bfloat16"


def count_processes(cfg: DictConfig, environment: Mapping[str, str] = os.environ) -> int:
    """How many processes are to be started: those of ``--cpu-processes``, but for a GPU or another's processes."""
    count = cfg.task.get("cpu_processes", 1)
    if count < 1:
        raise InputError(f"--cpu-processes {count}: give 1 or more")
    if count == 1:
        return 1
    if not _is_on_cpu(cfg):
        _log.info(f"--cpu-processes {count}: not heeded, since there is a GPU")
        return 1
    if cfg.distributed_training.distributed_world_size > 1 or int(environment.get("WORLD_SIZE", "1")) > 1:
        _log.info(f"--cpu-processes {count}: not heeded, since several processes have been started already")
        return 1
    return count


def _is_on_cpu(cfg: DictConfig) -> bool:
    return cfg.common.cpu or not torch.cuda.is_available()


def _train_together(cfg: DictConfig, main: Callable[..., Any], count: int) -> None:
    """Train in processes of this machine, which end with this one; if one fails, all do, and its error is raised."""
    threads = max(1, torch.get_num_threads() // count)
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)  # of one that fails, its error says all
    # A fork has all that is imported; elsewhere than on Linux libraries do not outlive one.
    method = "fork" if sys.platform.startswith("linux") else "spawn"
    file = shared_file() if method == "fork" else None
    with tempfile.TemporaryDirectory() as folder:
        training = cfg.distributed_training
        with open_dict(cfg):
            training.distributed_world_size = training.distributed_num_procs = count
            training.distributed_init_method = f"file://{folder}/store"
            training.distributed_backend, training.distributed_no_spawn = "gloo", True
            if training.ddp_backend in ("c10d", "pytorch_ddp"):
                training.ddp_backend = "legacy_ddp"  # adapters that take no part have no gradient
        try:
            torch.multiprocessing.start_processes(
                _train, (os.getpid(), threads, cfg, main, file), count, join=True, start_method=method
            )
        finally:
            if file is not None:
                os.close(file)


def _train(rank: int, parent: int, threads: int, cfg: DictConfig, main: Callable[..., Any], file: int | None) -> None:
    end_with_parent(parent)
    torch.set_num_threads(threads)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK)
    cfg.distributed_training.distributed_rank = rank
    count = cfg.distributed_training.distributed_world_size
    means = None if file is None else SharedMeans(file, rank, count, torch.distributed.barrier)
    with nullcontext() if means is None else MEANS.during(means):
        distributed_utils.distributed_main(rank, main, cfg, {"after_distributed_init_fn": _without_meeting_place})


def _without_meeting_place(cfg: DictConfig) -> DictConfig:
    """The options as checkpoints keep them, which are the same wherever the processes met."""
    cfg.distributed_training.distributed_init_method = None
    cfg.distributed_training.device_id = 0
    return cfg
