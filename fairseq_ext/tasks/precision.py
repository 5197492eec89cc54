"""The options of all our tasks for how precisely training computes."""

import copy
import logging
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from fairseq_ext.inputs.option import option
from fairseq_ext.modules.cpu_steps import FLOAT32, StepMemory, computed_in, fastest, time_steps

_log = logging.getLogger("fairseq_cli.train")  # the one that --log-file keeps


@dataclass
class PrecisionConfig(FairseqDataclass):
    matmul_precision: ChoiceEnum(["highest", "high", "medium"]) = option(  # type: ignore[valid-type]
        "highest",
        "of float32 matrix products in training, as in torch.set_float32_matmul_precision: high is "
        "TensorFloat-32 on a GPU; medium lets a CPU use bfloat16 where it can, and on some takes another library "
        "that is faster without being less precise (default: highest)",
    )
    cpu_precision: ChoiceEnum(["float32", "bfloat16", "auto"]) = option(  # type: ignore[valid-type]
        "float32",
        "of training on a CPU: bfloat16 multiplies in bfloat16 beside float32 weights; auto measures for "
        "some seconds which of both is faster on this machine, says so, and keeps to it when resumed "
        "(default: float32)",
    )
    decoding_precision: ChoiceEnum(["float32", "bfloat16"]) = option(  # type: ignore[valid-type]
        "float32", "of weights and products in decoding and scoring (default: float32)"
    )
    cpu_processes: int = option(
        1,
        "that train together on a CPU, each with batches of its own of --max-tokens or --batch-size and "
        "its share of the cores; where there is a GPU, or several processes have been started, it is not heeded "
        "(default: 1)",
    )


class Precision(StepMemory):
    """Mixed into a task of fairseq's whose options have the ones above."""

    cfg: Any
    _model: Any = None
    _is_agreed = False

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Let the process multiply as precisely as it is told to; only training comes by here."""
        torch.set_float32_matmul_precision(str(self.cfg.matmul_precision))
        self._model = model
        super().begin_epoch(epoch, model)  # type: ignore[misc]

    def train_step(
        self, sample: dict, model: Any, criterion: Any, optimizer: Any, *args: Any, **options: Any
    ) -> tuple[Any, Any, dict]:
        """fairseq's forward and backward pass, in the precision that --cpu-precision says."""
        is_on_cpu = next(model.parameters()).device.type == "cpu"
        lowered = computed_in(self._choose(sample, criterion) if is_on_cpu else FLOAT32, criterion)
        return super().train_step(sample, model, lowered, optimizer, *args, **options)  # type: ignore[misc]

    def _choose(self, sample: dict, criterion: Any) -> str:
        """The precision; where it is left open, the first batch decides."""
        if str(self.cfg.cpu_precision) != "auto":
            return str(self.cfg.cpu_precision)
        if not self._is_agreed:
            self.chosen_step = _of_first_process(self.chosen_step)
            if self.chosen_step is None:
                self.chosen_step = _of_first_process(self._measure(sample, criterion))
            self._is_agreed = True
        return str(self.chosen_step)

    def _measure(self, sample: dict, criterion: Any) -> str:
        model = copy.deepcopy(self._model).train()  # some remember what they have read

        def run(precision: str) -> None:
            computed_in(precision, criterion)(model, sample)[0].backward()
            model.zero_grad(set_to_none=True)

        with torch.random.fork_rng(devices=[]):
            seconds = time_steps(run)
        chosen = fastest(seconds)
        measured = ", ".join(f"{name} {value:.3f} s" for name, value in seconds.items())
        _log.info(f"--cpu-precision auto: {chosen}; a step took: {measured}")
        return chosen


def _of_first_process(value: str | None) -> str | None:
    """What the first of several processes that train together has."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return value
    answer = [value]
    torch.distributed.broadcast_object_list(answer, src=0)
    return answer[0]
