"""The option of all our tasks for how precisely training multiplies."""

from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass


@dataclass
class MatmulPrecisionConfig(FairseqDataclass):
    matmul_precision: ChoiceEnum(["highest", "high", "medium"]) = field(  # type: ignore[valid-type]
        default="highest",
        metadata={
            "help": "of float32 matrix products in training, as in torch.set_float32_matmul_precision: high is "
            "TensorFloat-32 on a GPU; medium lets a CPU use bfloat16 where it can, and on some takes another library "
            "that is faster without being less precise (default: highest)"
        },
    )


class MatmulPrecision:
    """Mixed into a task of fairseq's whose options have the one above."""

    cfg: Any

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Let the process multiply as precisely as it is told to; only training comes by here."""
        torch.set_float32_matmul_precision(str(self.cfg.matmul_precision))
        super().begin_epoch(epoch, model)  # type: ignore[misc]
