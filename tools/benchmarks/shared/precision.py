"""Models in the numeric types supported for decoding."""

from __future__ import annotations

from typing import Any

from benchmarks.shared.cases import MissingError

PRECISIONS = ("float32", "bfloat16")


def at_precision(model: Any, precision: str) -> Any:
    """Return the model with its weights in a numeric type.

    Raises:
        MissingError: if the code does not support the type.
    """
    if precision == "float32":
        return model
    if precision == "float16":
        return model.half()
    try:
        from fairseq_ext.patches.models import lower_precision
    except ImportError as error:
        raise MissingError(f"no {precision}") from error
    lower_precision(model, precision)
    return model
