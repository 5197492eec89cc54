"""Validation figures of each domain, in fairseq's log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict


def log_under_name(own: MetersDict, name: str) -> None:
    """Log loss and BLEU of one domain as ``loss_NAME`` and ``bleu_NAME``."""
    for key, meter in own.items():
        if key == "loss" or key.startswith("_bleu"):
            metrics.log_scalar(f"{key}_{name}", meter.val, meter.count, round=3)
        elif key == "bleu":
            metrics.log_derived(f"bleu_{name}", partial(_bleu_of, meter.fn, name))


def _bleu_of(compute: Callable[[dict], float], name: str, meters: MetersDict) -> float:
    """fairseq's BLEU, which it computes from counts under their plain names."""
    suffix = f"_{name}"
    return compute(
        {key.removesuffix(suffix): meters[key] for key in meters if key.startswith("_bleu") and key.endswith(suffix)}
    )


def average_over(domains: list[str], measure: str, meters: MetersDict) -> float:
    """The plain average of a measure over the domains that were validated."""
    values = [meters.get_smoothed_value(key) for name in domains if (key := f"{measure}_{name}") in meters]
    return round(sum(values) / len(values), 3)
