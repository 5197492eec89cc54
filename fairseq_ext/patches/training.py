"""Changes to training: CPUs, missing checkpoints, gradients of active parameters, and a clean exit."""

from __future__ import annotations

import atexit
import logging
import math
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import BackgroundConsumer, BufferedIterator
from fairseq.distributed import LegacyDistributedDataParallel
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer
from omegaconf import DictConfig, open_dict

from fairseq_ext import install
from fairseq_ext.base.children import end_with_parent
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_options import OWN_CHECKPOINT
from fairseq_ext.data.data_directory import VocabularyMemory
from fairseq_ext.modules.freezing import FrozenBase
from fairseq_ext.patches import Patch, around

_log = logging.getLogger("fairseq_cli.train")
_HAVE_BASE = ("random_base", "base_model")  # options of models that need no checkpoint to start from
_LOOPBACK = "lo" if sys.platform.startswith("linux") else "lo0"


def _call(call_main: Callable[..., Any], cfg: DictConfig, main: Callable[..., Any], **kwargs: Any) -> Any:
    """Make ``fairseq-train`` support ``--cpu-processes``, and handle ``--bf16``, ``--fp16`` and ``--amp`` on a CPU."""
    if Path(main.__code__.co_filename).name != "train.py":
        return call_main(cfg, main, **kwargs)
    if min(cfg.optimization.update_freq) < 1:
        raise InputError("--update-freq 0: set at least 1 batch per update")
    settle_precision(cfg)
    count = count_processes(cfg)
    return _train_together(cfg, main, count) if count > 1 else call_main(cfg, main, **kwargs)


def settle_precision(cfg: DictConfig) -> None:
    """Replace GPU precision options with their CPU equivalents, or refuse them."""
    common = cfg.common
    with open_dict(cfg):
        if common.bf16 and common.tpu and find_spec("torch_xla") is None:
            common.tpu = False  # --bf16 implies it, which is wrong on a GPU
        if common.tpu or not _is_on_cpu(cfg):
            return
        for option in ("fp16", "memory_efficient_fp16", "amp"):
            if common[option]:
                raise InputError(f"--{option.replace('_', '-')}: needs a GPU; on a CPU use --cpu-precision bfloat16")
        if common.bf16:
            if "cpu_precision" not in cfg.task:
                raise InputError(f"--bf16: task {cfg.task._name} does not support it on a CPU; remove it")
            common.bf16 = common.memory_efficient_bf16 = False
            cfg.task.cpu_precision = "bfloat16"


def count_processes(cfg: DictConfig, environment: Mapping[str, str] = os.environ) -> int:
    """Return the number of processes to start: ``--cpu-processes``, or 1 with a GPU or a distributed launcher."""
    count = getattr(cfg.task, "cpu_processes", 1)
    if count < 1:
        raise InputError(f"--cpu-processes {count}: set 1 or more")
    several = cfg.distributed_training.distributed_world_size > 1 or int(environment.get("WORLD_SIZE", "1")) > 1
    if count > 1 and (several or not _is_on_cpu(cfg)):
        _log.info(f"--cpu-processes {count}: ignored, because there is a GPU or several processes have been started")
        return 1
    return count


def _is_on_cpu(cfg: DictConfig) -> bool:
    return cfg.common.cpu or not torch.cuda.is_available()


def _train_together(cfg: DictConfig, main: Callable[..., Any], count: int) -> None:
    """Train in processes on this machine, which end with this one. If one fails, all end, and its error is raised."""
    threads = max(1, torch.get_num_threads() // count)
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)  # the child's error suffices
    # A fork inherits all imports; outside Linux, libraries are not fork-safe.
    method = "fork" if sys.platform.startswith("linux") else "spawn"
    with tempfile.TemporaryDirectory() as folder:
        training = cfg.distributed_training
        with open_dict(cfg):
            training.distributed_world_size = training.distributed_num_procs = count
            training.distributed_init_method = f"file://{folder}/store"
            training.distributed_backend, training.distributed_no_spawn = "gloo", True
            if training.ddp_backend in ("c10d", "pytorch_ddp"):
                training.ddp_backend = "legacy_ddp"  # inactive adapters have no gradient
        torch.multiprocessing.start_processes(
            _train, (os.getpid(), threads, cfg, main), count, join=True, start_method=method
        )


def _train(rank: int, parent: int, threads: int, cfg: DictConfig, main: Callable[..., Any]) -> None:
    end_with_parent(parent)
    install()  # fairseq does not, because a spawned process has imported the package to find this function
    torch.set_num_threads(threads)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK)
    cfg.distributed_training.distributed_rank = rank
    distributed_utils.distributed_main(rank, main, cfg, {"after_distributed_init_fn": _without_meeting_place})


def _without_meeting_place(cfg: DictConfig) -> DictConfig:
    """Remove the rendezvous address from the options, so that checkpoints do not depend on it."""
    cfg.distributed_training.distributed_init_method = None
    cfg.distributed_training.device_id = 0
    return cfg


def _load_checkpoint(load_checkpoint: Callable[..., Any], cfg: Any, trainer: Any, **kwargs: Any) -> Any:
    """Refuse to start training from a missing file."""
    for option in ("restore_file", "finetune_from_model", "continue_once"):
        path = getattr(cfg, option, None)
        if path in (None, OWN_CHECKPOINT):
            continue
        if option == "restore_file":  # each process may have a separate part
            path = path.replace(".pt", f"{trainer.checkpoint_suffix or ''}.pt")
        if not PathManager.isfile(path):
            option = option.replace("_", "-")
            raise InputError(f"--{option} {path}: not found; give the path of a checkpoint, a .pt file")
    _check_start(cfg, trainer)
    with _vocabulary_checked(trainer.task):
        return load_checkpoint(cfg, trainer, **kwargs)


def _check_start(cfg: Any, trainer: Any) -> None:
    """Refuse to train additions to a random base, and warn about gates without a teacher."""
    model = trainer.get_model()
    starts = cfg.finetune_from_model or cfg.restore_file != OWN_CHECKPOINT or getattr(cfg, "continue_once", None)
    own = os.path.join(cfg.save_dir, OWN_CHECKPOINT.replace(".pt", f"{trainer.checkpoint_suffix or ''}.pt"))
    if isinstance(model, FrozenBase) and not (
        starts or PathManager.isfile(own) or any(getattr(trainer.cfg.model, name, False) for name in _HAVE_BASE)
    ):
        raise InputError(
            "--finetune-from-model: not given, so that the frozen base would be random; give the checkpoint of a base, "
            "--base-model or --random-base"
        )
    gates = getattr(model, "gate_parameters", [])
    if any(gate.requires_grad for gate in gates) and not hasattr(trainer.get_criterion(), "gate_loss_weight"):
        _log.warning(
            "the gates are trained without a teacher; --criterion label_smoothed_cross_entropy_with_kd_gate uses one"
        )


def _load(load: Callable[..., Any], trainer: Trainer, *args: Any, **kwargs: Any) -> Any:
    """Stop training if ``--max-update`` is already reached; fairseq checks this only after the next update."""
    found, options = load(trainer, *args, **kwargs), trainer.cfg.optimization
    if 0 < options.max_update <= trainer.get_num_updates():
        print(f"--max-update {options.max_update}: the checkpoint already has all updates", file=sys.stderr)
        options.stop_min_lr = math.inf  # fairseq checks it before the first update
    return found


@contextmanager
def _vocabulary_checked(task: Any) -> Iterator[None]:
    """Check the task's vocabulary against the state in a checkpoint, which fairseq loads only for inference."""
    load = checkpoint_utils.load_checkpoint_to_cpu

    def load_and_check(*args: Any, **kwargs: Any) -> dict[str, Any]:
        state = load(*args, **kwargs)
        if isinstance(task, VocabularyMemory):
            task.check_vocabulary(state.get("task_state") or {})
        return state

    checkpoint_utils.load_checkpoint_to_cpu = load_and_check
    try:
        yield
    finally:
        checkpoint_utils.load_checkpoint_to_cpu = load


def _copy(copy: Callable[..., Any], src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """Copy to a temporary name and rename.

    fairseq saves one checkpoint and copies it over ``checkpoint_last.pt``, from which training resumes. If it were
    killed during the copy, neither the old nor the new checkpoint would be left.
    """
    if not PathManager.supports_rename(dst_path):
        return copy(src_path, dst_path, overwrite)
    copied = copy(src_path, f"{dst_path}.tmp", overwrite)
    PathManager.rename(f"{dst_path}.tmp", dst_path)
    return copied


_LONGEST_SECONDS = 10  # limit for one batch; beyond it, fairseq exits as usual


def _create_consumer(create: Callable[[Any], None], iterator: Any) -> None:
    """End fairseq's data threads before the interpreter exits, which would otherwise abort."""
    atexit.unregister(_stop_all)
    atexit.register(_stop_all)
    create(iterator)


def _stop_all() -> None:
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            # It ends after the next batch, for which the queue now has room.
            thread._max_len, thread._queue.maxsize = 0, sys.maxsize
            with thread._queue.not_full:
                thread._queue.not_full.notify_all()
            thread.join(_LONGEST_SECONDS)


_MOST = 2**28  # maximum buffer size in numbers, as in fairseq


def _exchange_active(exchange: Callable[[Any], None], model: Any) -> None:
    """Exclude parameters without a gradient in any process from ``--ddp-backend legacy_ddp``."""
    if model.accumulate_grads:
        return
    everything = model.per_device_params
    trained = [p for parameters in everything for p in parameters if p.requires_grad]
    device = next(model.module.parameters()).device
    are_active = torch.tensor([p.grad is not None for p in trained], dtype=torch.int32, device=device)
    distributed_utils.all_reduce(are_active, model.process_group, op="max")
    active = {id(p) for p, is_active in zip(trained, are_active.tolist(), strict=True) if is_active}
    model.per_device_params = [[p for p in parameters if id(p) in active] for parameters in everything]
    size = sum(p.numel() for parameters in model.per_device_params for p in parameters)
    model.buffer, model.buffer_size = None, min(size, _MOST)
    try:
        exchange(model)
    finally:
        model.per_device_params, model.buffer = everything, None


def _train_step(train_step: Callable[..., Any], trainer: Trainer, *args: Any, **kwargs: Any) -> Any:
    """Explain diverged training or data of another vocabulary, instead of fairseq's traceback."""
    try:
        return train_step(trainer, *args, **kwargs)
    # After infinite gradients, fairseq searches for their layer and fails with StopIteration.
    except (FloatingPointError, StopIteration) as error:
        raise InputError(
            f"update {trainer.get_num_updates() + 1}: the loss or its gradient is not a number: the training "
            "diverged; start again with a lower --lr, more --warmup-updates or --clip-norm"
        ) from error
    except IndexError as error:
        if "out of range in self" not in str(error):
            raise
        raise InputError(
            "the data has token numbers beyond the vocabulary, because it was binarised with another dictionary; "
            "binarise it again"
        ) from error


PATCHES: list[Patch] = [
    (distributed_utils, "call_main", around(_call)),
    (checkpoint_utils, "load_checkpoint", around(_load_checkpoint)),
    (PathManager, "copy", around(_copy)),
    (BufferedIterator, "_create_consumer", around(_create_consumer)),
    (LegacyDistributedDataParallel, "all_reduce_grads", around(_exchange_active)),
    (Trainer, "load_checkpoint", around(_load)),
    (Trainer, "train_step", around(_train_step)),
]
