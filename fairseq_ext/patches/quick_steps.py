"""What fairseq computes slowly on a CPU is computed in other ways, in a training that asks for it and nowhere else.

A float32 training that asks for nothing gets fairseq's and torch's own numbers, bit for bit.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models import BaseFairseqModel, FairseqDecoder
from fairseq.models.transformer import TransformerModelBase
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.optim.adam import Adam
from torch import Tensor

from fairseq_ext.modules.blockwise_cross_entropy import blockwise_cross_entropy
from fairseq_ext.modules.byte_dropout import byte_dropout
from fairseq_ext.training.cpu_steps import IS_QUICK

_SOFTMAX = ("get_normalized_probs", "get_normalized_probs_scriptable")
_SOFTMAXES = {
    method
    for kind in (BaseFairseqModel, TransformerModelBase, FairseqDecoder)
    for name, method in vars(kind).items()
    if name in _SOFTMAX
}


def let_steps_be_quick() -> None:
    """Let dropout, cross-entropy and Adam be computed quickly while ``IS_QUICK`` says so."""
    for kind, name, quick in _QUICK:
        function = getattr(kind, name)
        if not hasattr(function, "__wrapped__"):
            setattr(kind, name, _quick_or(quick, function))


def _quick_or(quick: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def choose(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = quick(self, *args, **kwargs) if IS_QUICK.value else None
        return function(self, *args, **kwargs) if found is None else found

    return choose


# Each returns None for what it does not compute.


def _drop(dropout: FairseqDropout, x: Tensor, inplace: bool = False) -> Tensor | None:
    return byte_dropout(x, dropout.p) if dropout.training and 0 < dropout.p < 1 else None


def _lose(
    criterion: Any, model: Any, net_output: Any, sample: dict[str, Any], reduce: bool = True
) -> tuple[Tensor, Tensor] | None:
    """A loss, and the one that is logged beside it: without label smoothing, it is the same."""
    is_plain = reduce and net_output[0].is_cpu and _is_plain_softmax(model)
    if not is_plain or getattr(criterion, "ignore_prefix_size", False):
        return None
    logits, target = net_output[0].flatten(0, -2), model.get_targets(sample, net_output).flatten()
    if isinstance(criterion, LabelSmoothedCrossEntropyCriterion):
        return blockwise_cross_entropy(logits, target, criterion.eps, criterion.padding_idx)
    loss, _ = blockwise_cross_entropy(logits, target, 0.0, criterion.padding_idx)
    return loss, loss


def _is_plain_softmax(model: Any) -> bool:
    """Whether a model's probabilities are the softmax of its output, and not of a class of its own."""
    decoder: Any = getattr(model, "decoder", None)
    methods = [getattr(owner, name, None) for owner in (model, decoder) for name in _SOFTMAX]
    are_known = all(getattr(method, "__func__", None) in _SOFTMAXES for method in methods)
    return are_known and getattr(decoder, "adaptive_softmax", None) is None


def _step(adam: Adam, closure: Callable[[], Any] | None = None) -> bool | None:
    """One pass over the memory where fairseq's Adam makes seven."""
    groups = adam.param_groups
    moved = [p for group in groups for p in group["params"] if p.grad is not None]
    is_plain = all(p.dtype == p.grad.dtype == torch.float32 and p.is_cpu and not p.grad.is_sparse for p in moved)
    if closure is not None or not is_plain or any(group["amsgrad"] for group in groups):
        return None
    for group in groups:
        by_age: dict[int, list[Tensor]] = defaultdict(list)
        for p in group["params"]:
            if p.grad is not None:
                by_age[_aged(adam.state[p], p)].append(p)
        for age, parameters in by_age.items():
            _step_together(adam, group, age, parameters)
    return False  # as nothing: a loss is what a closure returns


def _aged(state: dict[str, Any], parameter: Tensor) -> int:
    """The number of the step that a parameter takes, noted in its state as fairseq's Adam does."""
    if not state:
        state |= {"step": 0, "exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(parameter)}
    state["step"] += 1
    return state["step"]


def _step_together(adam: Adam, group: dict[str, Any], age: int, parameters: list[Tensor]) -> None:
    beta1, beta2 = group["betas"]
    torch._fused_adamw_(
        [p.data for p in parameters],
        [p.grad for p in parameters if p.grad is not None],
        [adam.state[p]["exp_avg"] for p in parameters],
        [adam.state[p]["exp_avg_sq"] for p in parameters],
        [],
        [torch.tensor(float(age))] * len(parameters),
        lr=group["lr"],
        beta1=beta1,
        beta2=beta2,
        weight_decay=group["weight_decay"],
        # torch adds it to the corrected root, fairseq to the root itself.
        eps=group["eps"] / math.sqrt(1 - beta2**age),
        amsgrad=False,
        maximize=False,
    )


_QUICK: list[tuple[Any, str, Callable[..., Any]]] = [
    (FairseqDropout, "forward", _drop),
    (CrossEntropyCriterion, "compute_loss", _lose),
    (LabelSmoothedCrossEntropyCriterion, "compute_loss", _lose),
    (Adam, "step", _step),
]
