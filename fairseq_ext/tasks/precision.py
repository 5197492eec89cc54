"""Precision options of all tasks."""

import copy
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from timeit import timeit
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairseq_ext.base.option import option

FLOAT32, BFLOAT16 = "float32", "bfloat16"
PRECISIONS = (FLOAT32, BFLOAT16)  # choices of --cpu-precision auto
_ENTRY = "cpu_step"  # key in a task's state in checkpoints
_ROUNDS = 4
_WORTHWHILE = 0.97  # choose bfloat16 below this fraction of float32's time, as small differences are noise
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
        "float32; auto measures which is faster on this machine (default: float32)",
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
    """Mixin of fairseq tasks whose options include :class:`PrecisionConfig`.

    Attributes:
        chosen_step: the precision that ``auto`` chose, stored in checkpoints for resumed training.
    """

    cfg: Any
    chosen_step: str | None = None
    _model: Any = None
    _is_agreed = False

    def state_dict(self) -> dict[str, Any]:
        """Return the task's state for checkpoints."""
        chosen = {} if self.chosen_step is None else {_ENTRY: self.chosen_step}
        return {**super().state_dict(), **chosen}  # type: ignore[misc]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a task's state from a checkpoint, except its chosen precision."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != _ENTRY})  # type: ignore[misc]

    def resume_step(self, state_dict: Mapping[str, Any]) -> None:
        """Continue with the precision stored in a checkpoint."""
        self.chosen_step = state_dict.get(_ENTRY)

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Set the precision of matrix products in this process; called in training only."""
        torch.set_float32_matmul_precision(str(self.cfg.matmul_precision))
        self._model = model
        super().begin_epoch(epoch, model)  # type: ignore[misc]

    def train_step(
        self, sample: dict, model: Any, criterion: Any, optimizer: Any, *args: Any, **options: Any
    ) -> tuple[Any, Any, dict]:
        """Run fairseq's forward and backward pass with --cpu-precision."""
        if next(model.parameters()).device.type == "cpu":
            criterion = computed_in(self._choose(sample, criterion), criterion)
        return super().train_step(sample, model, criterion, optimizer, *args, **options)  # type: ignore[misc]

    def _choose(self, sample: dict, criterion: Any) -> str:
        """Return the precision; ``auto`` measures with the first batch."""
        if str(self.cfg.cpu_precision) != "auto":
            return str(self.cfg.cpu_precision)
        if not self._is_agreed:
            self.chosen_step = _of_first_process(self.chosen_step)
            if self.chosen_step is None:
                self.chosen_step = _of_first_process(self._measure(sample, criterion))
            self._is_agreed = True
        return str(self.chosen_step)

    def _measure(self, sample: dict, criterion: Any) -> str:
        model = copy.deepcopy(self._model).train()  # a copy, because some models change their state

        def run(precision: str) -> None:
            computed_in(precision, criterion)(model, sample)[0].backward()
            model.zero_grad(set_to_none=True)

        with torch.random.fork_rng(devices=[]):
            seconds = time_steps(run)
        chosen = BFLOAT16 if seconds[BFLOAT16] < _WORTHWHILE * seconds[FLOAT32] else FLOAT32
        measured = ", ".join(f"{name} {value:.3f} s" for name, value in seconds.items())
        _log.info(f"--cpu-precision auto: {chosen}; a step took: {measured}")
        return chosen


def computed_in(precision: str, criterion: Callable[..., Any]) -> Callable[..., Any]:
    """Return a criterion that computes itself and its model in a precision, forward and backward.

    With bfloat16, matrix products are in bfloat16; weights, losses, softmaxes and the optimiser stay in float32.
    """
    if precision == FLOAT32:
        return criterion

    def compute(*args: Any, **kwargs: Any) -> Any:
        # torch's flash attention on CPUs is slower for short sentences.
        with sdpa_kernel(SDPBackend.MATH), torch.autocast("cpu", torch.bfloat16):
            return criterion(*args, **kwargs)

    return compute


def time_steps(run: Callable[[str], None]) -> dict[str, float]:
    """Return the seconds of a training step in each precision, the minimum of several alternating rounds.

    With one thread, CPU time is measured, which does not depend on other processes.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    rounds = [{name: timeit(partial(run, name), timer=clock, number=1) for name in PRECISIONS} for _ in range(_ROUNDS)]
    return {name: min(seconds[name] for seconds in rounds[1:]) for name in PRECISIONS}  # the first warms up


def _of_first_process(value: str | None) -> str | None:
    """Return the value of the first of several training processes."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return value
    answer = [value]
    torch.distributed.broadcast_object_list(answer, src=0)
    return answer[0]
