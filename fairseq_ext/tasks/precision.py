"""Precision options of all tasks."""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairseq_ext.base.option import option

FLOAT32, BFLOAT16 = "float32", "bfloat16"
_UNITS = re.compile(r"\b(?:avx512_bf16|amx_bf16|bf16)\b")  # Linux's names of a processor's units for bfloat16
_log = logging.getLogger("fairseq_cli.train")  # the logger that --log-file records


@dataclass
class PrecisionConfig(FairseqDataclass):
    matmul_precision: ChoiceEnum(["highest", "high", "medium"]) = option(  # type: ignore[valid-type]
        "highest",
        "precision of float32 matrix products in training, as in torch.set_float32_matmul_precision: high is "
        "TensorFloat-32 on a GPU; medium lets a CPU use bfloat16 if it can (default: highest)",
    )
    cpu_precision: ChoiceEnum(["float32", "bfloat16", "auto"]) = option(  # type: ignore[valid-type]
        "float32",
        "precision of training on a CPU: bfloat16 computes matrix products in bfloat16 and keeps weights in "
        "float32; auto is bfloat16 if the processor has units for it, else float32 (default: float32)",
    )
    decoding_precision: ChoiceEnum(["float32", "bfloat16"]) = option(  # type: ignore[valid-type]
        "float32", "precision of weights and products in decoding and scoring (default: float32)"
    )
    cpu_processes: int = option(
        1,
        "number of processes for training on a CPU, each with batches of its own; ignored with a GPU or if several "
        "processes have been started (default: 1)",
    )


class Precision:
    """Mixin of fairseq tasks whose options include :class:`PrecisionConfig`."""

    cfg: Any

    @cached_property
    def cpu_precision(self) -> str:
        """The precision of training steps on a CPU."""
        chosen = str(self.cfg.cpu_precision)
        if chosen == "auto":
            chosen = BFLOAT16 if has_bfloat16_units() else FLOAT32
            _log.info(f"--cpu-precision auto: {chosen}")
        return chosen

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Set the precision of matrix products in this process; called in training only."""
        torch.set_float32_matmul_precision(str(self.cfg.matmul_precision))
        super().begin_epoch(epoch, model)  # type: ignore[misc]

    def train_step(self, sample: dict, model: Any, criterion: Any, *args: Any, **options: Any) -> tuple[Any, Any, dict]:
        """Run fairseq's forward and backward pass with --cpu-precision."""
        if next(model.parameters()).device.type == "cpu" and self.cpu_precision == BFLOAT16:
            criterion = _in_bfloat16(criterion)
        return super().train_step(sample, model, criterion, *args, **options)  # type: ignore[misc]


def _in_bfloat16(criterion: Callable[..., Any]) -> Callable[..., Any]:
    """Return a criterion whose matrix products, and those of its model, are in bfloat16, forward and backward.

    Weights, losses, softmaxes and the optimiser stay in float32.
    """

    def compute(*args: Any, **kwargs: Any) -> Any:
        # torch's flash attention on CPUs is slower for short sentences.
        with sdpa_kernel(SDPBackend.MATH), torch.autocast("cpu", torch.bfloat16):
            return criterion(*args, **kwargs)

    return compute


def has_bfloat16_units(facts: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether the processor multiplies in bfloat16, as far as Linux says; False on other systems."""
    return facts.is_file() and _UNITS.search(facts.read_text(encoding="utf-8")) is not None
