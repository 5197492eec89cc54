"""How large the trained models are, and how much of them was trained (Klimaszewski et al. 2023, Table 2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fairseq  # noqa: F401  before the package's registrations
from fairseq import checkpoint_utils

from fairseq_ext import registration  # noqa: F401  the checkpoints' models and task

PARAMETERS_FILE = "parameters.json"


def write_parameters(folder: Path, checkpoints: Mapping[str, Path], data: Mapping[str, Path]) -> None:
    """Write ``parameters.json``: ``{RUN: {"total", "trained", "arch"}}``.

    Args:
        folder: where to write.
        checkpoints: by run.
        data: by run the binarised data, for the dictionaries.
    """
    record = {name: count_parameters(path, data[name]) for name, path in checkpoints.items()}
    (folder / PARAMETERS_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def count_parameters(checkpoint: Path, data: Path) -> dict[str, Any]:
    """Count the parameters of a trained model, one that is used in several places once.

    The model itself is built and filled from the checkpoint. The entries of the file would not do: ones that share
    memory may have been written apart, some are no parameters, and none says what was frozen.

    Raises:
        InputError: if the checkpoint cannot be read safely, or is not of this data.
    """
    models, config, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    parameters = list(models[0].parameters())
    return {
        "total": sum(parameter.numel() for parameter in parameters),
        "trained": sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        "arch": config.model.arch,
    }
