"""A check before the first update from a base: whether training mode disturbs the base.

A base that was trained without dropout, such as a student of knowledge distillation, may be far worse with it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from fairseq_ext.base.fairseq_options import OWN_CHECKPOINT
from fairseq_ext.modules.freezing import BASE_RATES
from fairseq_ext.patches import Patch, around

_log = logging.getLogger("fairseq_cli.train")
_MOST = 0.1  # relative difference of the losses that is not reported


def _load_checkpoint(load_checkpoint: Callable[..., Any], cfg: Any, trainer: Any, **kwargs: Any) -> Any:
    """Remember the base if training starts from one; resumed training has updates."""
    found = load_checkpoint(cfg, trainer, **kwargs)
    if trainer.get_num_updates() == 0:
        restored = None if cfg.restore_file == OWN_CHECKPOINT else cfg.restore_file
        trainer.unchecked_base = cfg.finetune_from_model or restored
    return found


def _train_step(
    train_step: Callable[..., Any], trainer: Trainer, samples: Sequence[Any], *args: Any, **kwargs: Any
) -> Any:
    """Check the base of which :func:`_load_checkpoint` knows, in the first update."""
    base = vars(trainer).pop("unchecked_base", None)
    if base is not None:
        lines = [_about_smoothing(trainer, base), _about_modes(trainer, samples[0], base)]
        for line in lines if trainer.is_data_parallel_master else ():
            if line is not None:
                _log.warning(line)
    return train_step(trainer, samples, *args, **kwargs)


def _about_smoothing(trainer: Trainer, base: str) -> str | None:
    rates = getattr(trainer.cfg.model, BASE_RATES, None)
    smoothing = getattr(trainer.criterion, "eps", 0)
    if rates is None or any(rates.values()) or not smoothing:
        return None
    return (
        f"--label-smoothing {smoothing}: {base} was trained without dropout, as students are, whose predictions are "
        "too peaked for label smoothing; set --label-smoothing 0"
    )


def _about_modes(trainer: Trainer, sample: Any, base: str) -> str | None:
    """Compare the losses in training and evaluation mode; every process computes, as its model may be sharded."""
    sample, _ = trainer._prepare_sample(sample)  # a process that has none in this update takes another
    if "net_input" not in sample:  # several batches, as in some of fairseq's tasks
        return None
    with torch.no_grad(), torch.random.fork_rng(devices=[trainer.device] if trainer.cuda else []):
        noisy, exact = (_bits(trainer, sample, is_training) for is_training in (True, False))
    if abs(noisy - exact) <= _MOST * exact:
        return None
    frozen_mode = getattr(trainer.get_model(), "frozen_mode", "")
    other = {"train": " or --frozen-mode eval", "eval": " or --adapter-dropout 0"}.get(frozen_mode, "")
    return (
        f"{base} has a loss of {noisy:.2f} bits in training mode but {exact:.2f} in evaluation mode, on the first "
        f"batch: dropout disturbs it; set --dropout 0{other}"
    )


def _bits(trainer: Trainer, sample: Any, is_training: bool) -> float:
    """Return the loss of a batch without label smoothing, as fairseq logs it."""
    for part in (trainer.model, trainer.criterion):
        part.train(is_training)
    _, sample_size, log = trainer.criterion(trainer.model, sample)
    loss, count = (log["nll_loss"], log["ntokens"]) if "nll_loss" in log else (log["loss"], sample_size)
    return float(loss) / float(count) / math.log(2)


PATCHES: list[Patch] = [
    (checkpoint_utils, "load_checkpoint", around(_load_checkpoint)),
    (Trainer, "train_step", around(_train_step)),
]
