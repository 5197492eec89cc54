"""Numbers of all and of trained parameters of a model."""

from __future__ import annotations

from pathlib import Path

import fairseq  # noqa: F401  before the package's registrations
from fairseq import checkpoint_utils

from fairseq_ext import registration  # noqa: F401  the checkpoints' models and task


def count_parameters(checkpoint: Path, data: Path) -> tuple[int, int]:
    """Count all and trained parameters of a model; shared ones count once.

    The model is built from the checkpoint, because the file does not say which entries are shared, frozen or no
    parameters.
    """
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    parameters = list(models[0].parameters())
    trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    return sum(parameter.numel() for parameter in parameters), trained
