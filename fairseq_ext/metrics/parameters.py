"""How many parameters a trained model has, and how many of them were trained."""

from __future__ import annotations

from pathlib import Path

import fairseq  # noqa: F401  before the package's registrations
from fairseq import checkpoint_utils

from fairseq_ext import registration  # noqa: F401  the checkpoints' models and task


def count_parameters(checkpoint: Path, data: Path) -> tuple[int, int]:
    """Count all parameters of a trained model, and those that were trained; shared ones count once.

    The model itself is built and filled from the checkpoint. The entries of the file would not do: ones that share
    memory may have been written apart, some are no parameters, and none says what was frozen.
    """
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    parameters = list(models[0].parameters())
    trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    return sum(parameter.numel() for parameter in parameters), trained
