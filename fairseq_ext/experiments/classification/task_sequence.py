"""Whether tasks forget: logits of every task from the file where it was trained, and from the last of the sequence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.classifiers.predictions import ExampleSet, load_model, logits_of
from fairseq_ext.text.split import HELD_OUT


def compare_tasks(
    checkpoints: Mapping[str, Path], data: Mapping[str, Path], *, batch_size: int = 64, cpu: bool = False
) -> dict[str, dict[str, Any]]:
    """Compare the logits of the validation and test sets, over equal batches.

    Args:
        checkpoints: by task, in the order of training; each was trained from the one before.
        data: by task, its binarised directory.
        batch_size: examples at a time.
        cpu: whether to leave a GPU alone.

    Returns:
        By task but for the last: ``same``, whether all are equal bit for bit; ``largest``, the largest difference;
        ``examples``, how many were compared.
    """
    *earlier, last = checkpoints
    final = load_model(checkpoints[last], data[last] / "input0", cpu=cpu)
    found = {}
    for task in earlier:
        model = load_model(checkpoints[task], data[task] / "input0", cpu=cpu)
        sets = [ExampleSet.load(data[task], split, model.max_positions()) for split in HELD_OUT]
        texts = [text for examples in sets for text in examples.texts]
        before, after = (logits_of(each, task, texts, batch_size) for each in (model, final))
        found[task] = {
            # By their bits, so that equal means equal for what is not finite, too.
            "same": before.tobytes() == after.tobytes(),
            "largest": float(np.abs(before - after).max()),
            "examples": len(before),
        }
    return found
