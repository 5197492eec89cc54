"""Ways to compute a training step on a CPU, and which of them is the fastest on the machine at hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from fairseq_ext.modules.thread_value import ThreadValue

_ENTRY = "cpu_step"
_SECONDS, _LEAST_ROUNDS, _MOST_ROUNDS = 2.0, 2, 8
_WORTHWHILE = 0.97  # of a way's time: one that takes less is taken in its place

# Whether cross-entropy is computed in blocks, which rounds differently.
IS_QUICK = ThreadValue[bool]()


@dataclass(frozen=True)
class CpuStep:
    """A way to compute a training step.

    Attributes:
        bfloat16: products in bfloat16; weights, losses, softmaxes and the optimiser stay float32.
        math_attention: attention as plain products: torch's flash attention for CPUs is slower for short sentences.
        is_quick: the cross-entropy in blocks of the vocabulary.
    """

    bfloat16: bool = False
    math_attention: bool = False
    is_quick: bool = False

    def around(self, criterion: Callable[..., Any]) -> Callable[..., Any]:
        """A criterion, the model's forward pass in it, computed in this way; its backward pass follows suit."""
        if self == CpuStep():
            return criterion

        def compute(*args: Any, **kwargs: Any) -> Any:
            with (
                IS_QUICK.during(self.is_quick),
                self._attention(),
                torch.autocast("cpu", torch.bfloat16, enabled=self.bfloat16),
            ):
                return criterion(*args, **kwargs)

        return compute

    def _attention(self) -> AbstractContextManager[Any]:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel(SDPBackend.MATH) if self.math_attention else nullcontext()


FLOAT32 = "float32"
# What --cpu-precision auto chooses from, by what checkpoints and logs call it.
STEPS = {
    FLOAT32: CpuStep(),
    "float32, quick": CpuStep(math_attention=True, is_quick=True),
    "bfloat16": CpuStep(bfloat16=True, math_attention=True, is_quick=True),
    "bfloat16, flash attention": CpuStep(bfloat16=True, is_quick=True),
}


class StepMemory:
    """Mixed into a task of fairseq's: checkpoints remember the way that was chosen, for a training that goes on.

    Attributes:
        chosen_step: its name in :data:`STEPS`; None where none was measured.
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
        name = state_dict.get(_ENTRY)
        self.chosen_step = name if isinstance(name, str) and name in STEPS else None


def time_steps(run: Callable[[CpuStep], None]) -> dict[str, float]:
    """The seconds of a training step in each way, the least of some seconds' rounds in turn.

    Of one thread they are seconds of computing, which others at work on the machine do not lengthen.

    Args:
        run: computes the step, and leaves no trace.
    """
    seconds = {name: float("inf") for name in STEPS}
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    end = time.perf_counter() + _SECONDS
    for turn in range(_MOST_ROUNDS + 1):
        for name, step in STEPS.items():
            start = clock()
            run(step)
            if turn:  # the first round warms up
                seconds[name] = min(seconds[name], clock() - start)
        if turn >= _LEAST_ROUNDS and time.perf_counter() > end:
            break
    return seconds


def fastest(seconds: Mapping[str, float]) -> str:
    """The way that took the least time; one named before it that is as good, since small differences are chance."""
    best = min(seconds.values())
    return next(name for name, value in seconds.items() if best >= _WORTHWHILE * value)
