"""The precisions in which a CPU trains, and which of them is faster on the machine at hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

_ENTRY = "cpu_step"
_SECONDS, _LEAST_ROUNDS, _MOST_ROUNDS = 2.0, 2, 8
_WORTHWHILE = 0.97  # of a precision's time: one that takes less is taken in its place

FLOAT32, BFLOAT16 = "float32", "bfloat16"
# What --cpu-precision auto chooses from.
PRECISIONS = (FLOAT32, BFLOAT16)


def computed_in(precision: str, criterion: Callable[..., Any]) -> Callable[..., Any]:
    """A criterion that computes itself and its model in a precision; its backward pass follows suit.

    With bfloat16, matrix products are in bfloat16; weights, losses, softmaxes and the optimiser stay float32.
    """
    if precision == FLOAT32:
        return criterion

    def compute(*args: Any, **kwargs: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        # torch's flash attention for CPUs is slower for short sentences.
        with sdpa_kernel(SDPBackend.MATH), torch.autocast("cpu", torch.bfloat16):
            return criterion(*args, **kwargs)

    return compute


class StepMemory:
    """Mixed into a task of fairseq's: checkpoints remember the precision that was chosen, for a training that goes on.

    Attributes:
        chosen_step: one of :data:`PRECISIONS`; None where none was measured.
    """

    chosen_step: str | None = None

    def state_dict(self) -> dict[str, Any]:
        """What checkpoints keep of the task."""
        chosen = {} if self.chosen_step is None else {_ENTRY: self.chosen_step}
        return {**super().state_dict(), **chosen}  # type: ignore[misc]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take what a checkpoint kept of a task, but for how it was trained."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != _ENTRY})  # type: ignore[misc]

    def resume_step(self, state_dict: Mapping[str, Any]) -> None:
        """Go on as the training did whose checkpoint kept this."""
        # Earlier versions told ways to compute apart, such as "bfloat16, flash attention".
        name = str(state_dict.get(_ENTRY)).partition(",")[0]
        self.chosen_step = name if name in PRECISIONS else None


def time_steps(run: Callable[[str], None]) -> dict[str, float]:
    """The seconds of a training step in each precision, the least of some seconds' rounds in turn.

    Of one thread they are seconds of computing, which others at work on the machine do not lengthen.
    """
    seconds = dict.fromkeys(PRECISIONS, float("inf"))
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    end = time.perf_counter() + _SECONDS
    for turn in range(_MOST_ROUNDS + 1):
        for name in PRECISIONS:
            start = clock()
            run(name)
            if turn:  # the first round warms up
                seconds[name] = min(seconds[name], clock() - start)
        if turn >= _LEAST_ROUNDS and time.perf_counter() > end:
            break
    return seconds


def fastest(seconds: Mapping[str, float]) -> str:
    """The precision that took the least time; float32 if it is as good, since small differences are chance."""
    best = min(seconds.values())
    return next(name for name, value in seconds.items() if best >= _WORTHWHILE * value)
