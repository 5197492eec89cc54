"""numpy's numbers and arrays in checkpoints, taken as bytes with a length.

``--eval-bleu`` keeps its counts in arrays. numpy's own way to unpickle them believes the file, which may say of a type
of whole numbers that they are Python objects. Here a type is its name, an array its bytes.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

_NAMES = {"i8": np.int64, "f8": np.float64}


class PlainDType:
    """Stands for ``numpy.dtype``: one of two kinds of numbers."""

    def __init__(self, name: str, align: bool = False, copy: bool = True) -> None:
        if name not in _NAMES:
            raise pickle.UnpicklingError(f"an array of {name!r}")
        self.kind = np.dtype(_NAMES[name])

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if tuple(state) != (3, "<", None, None, None, -1, -1, 0):
            raise pickle.UnpicklingError(f"an array of numbers of another form ({state})")


class PlainArray(np.ndarray):
    """Stands for ``numpy.ndarray``; written again, it is one."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, data = state
        if not isinstance(dtype, PlainDType) or not isinstance(data, bytes):
            raise pickle.UnpicklingError("an array of objects")
        plain: Any = (1, shape, dtype.kind, bool(is_fortran), data)
        super().__setstate__(plain)

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()


def empty_array(kind: type, shape: tuple[int, ...], code: bytes) -> PlainArray:
    """Stands for the function that numpy begins an array with; its state follows."""
    return np.empty(0, np.int64).view(PlainArray)


def plain_scalar(dtype: PlainDType, data: bytes) -> Any:
    """Stands for the function that makes numpy's scalars."""
    if not isinstance(dtype, PlainDType) or not isinstance(data, bytes):
        raise pickle.UnpicklingError("a number of another form")
    return np.frombuffer(data, dtype.kind, count=1)[0]


# numpy 1 wrote its functions under another name. Types come by the names of their own classes, too.
ARRAY_TYPES: list = [
    *((empty_array, f"numpy.{core}.multiarray._reconstruct") for core in ("_core", "core")),
    *((plain_scalar, f"numpy.{core}.multiarray.scalar") for core in ("_core", "core")),
    (PlainArray, "numpy.ndarray"),
    (PlainDType, "numpy.dtype"),
]
