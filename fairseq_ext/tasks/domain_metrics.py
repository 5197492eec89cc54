"""Validation metrics of each domain in fairseq's log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import torch
from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict
from fairseq.utils import get_perplexity
from torch import Tensor

_BY_DOMAIN = "by_domain/"


def mark_domain(log: dict, domain_id: int, num_domains: int) -> dict:
    """Add every value of a single-domain batch's log again as ``by_domain/KEY``.

    These have one value per domain, D×…, zero for all but this domain, so that the logs of all batches and workers have
    the same keys and can be summed.
    """
    return log | {_BY_DOMAIN + key: _of_domain(value, domain_id, num_domains) for key, value in log.items()}


def _of_domain(value: Any, domain_id: int, num_domains: int) -> Tensor:
    value = torch.as_tensor(value, dtype=None if isinstance(value, Tensor) else torch.float64)
    values = value.new_zeros(num_domains, *value.shape)
    values[domain_id] = value
    return values


def unmarked(logs: Sequence[dict]) -> list[dict]:
    """Return the logs without the entries of :func:`mark_domain`."""
    return [{key: value for key, value in log.items() if not key.startswith(_BY_DOMAIN)} for log in logs]


def _logs_of_domains(logs: Sequence[dict], num_domains: int) -> list[dict]:
    """Return the sum of each domain's logs; empty without entries of :func:`mark_domain`."""
    keys = [key for key in (logs[0] if logs else ()) if key.startswith(_BY_DOMAIN)]
    sums = {key.removeprefix(_BY_DOMAIN): sum(log[key] for log in logs).cpu() for key in keys}
    return [
        {key: values[d] if values.dim() > 1 else values[d].item() for key, values in sums.items()}
        for d in range(num_domains)
    ]


def log_by_domain(
    logs: Sequence[dict], domains: list[str], reduce: Callable[[list[dict]], None], measures: Collection[str]
) -> None:
    """Log measures of each domain as ``loss_DOMAIN``, and their plain averages over domains as ``loss_avg``."""
    for name, own_log in zip(domains, _logs_of_domains(logs, len(domains)), strict=True):
        if not own_log.get("ntokens", 0):
            continue
        with metrics.aggregate(new_root=True) as own:
            reduce([own_log])
        for measure in _log_under_name(own, name, measures):
            metrics.log_derived(f"{measure}_avg", partial(average_over, domains, measure))


def _log_under_name(own: MetersDict, name: str, measures: Collection[str]) -> set[str]:
    """Log the metrics of one domain under its name; return the measures among them."""
    for key, meter in own.items():
        if key == "loss" or key.startswith("_bleu"):
            metrics.log_scalar(f"{key}_{name}", meter.val, meter.count, round=3)
        elif key == "bleu":
            metrics.log_derived(f"bleu_{name}", partial(_bleu_of, meter.fn, name))
    if "ppl" in measures:
        metrics.log_derived(f"ppl_{name}", partial(_perplexity_of, name))
    return own.keys() & set(measures)


def _perplexity_of(name: str, meters: MetersDict) -> float:
    return get_perplexity(meters[f"loss_{name}"].avg)


def _bleu_of(compute: Callable[[dict], float], name: str, meters: MetersDict) -> float:
    """Compute a domain's BLEU with fairseq's function, which reads counts under names without a domain."""
    suffix = f"_{name}"
    return compute(
        {key.removesuffix(suffix): meters[key] for key in meters if key.startswith("_bleu") and key.endswith(suffix)}
    )


def average_over(domains: list[str], measure: str, meters: MetersDict) -> float:
    """Return the plain average of a measure over the validated domains."""
    values = [meters.get_smoothed_value(key) for name in domains if (key := f"{measure}_{name}") in meters]
    return round(sum(values) / len(values), 3)
