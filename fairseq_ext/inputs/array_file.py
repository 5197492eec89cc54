"""Reading numpy's arrays from files that a user may have changed: without pickles."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairseq_ext.inputs.errors import InputError

# What numpy and zipfile raise where a header is damaged, or tells of more than there is.
_DAMAGE = (
    *(OSError, ValueError, KeyError, EOFError, OverflowError, MemoryError, TypeError, SyntaxError, RecursionError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
)


def map_array(path: Path, remedy: str) -> np.ndarray:
    """Map the array of a ``.npy`` file into memory.

    Args:
        path: of the file.
        remedy: how to come by a right one, for messages.
    """
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path}: not found; {remedy}") from None
    except _DAMAGE as error:
        raise InputError(f"{path}: cannot be read as an array ({error}); {remedy}") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: is an archive, not a single array; {remedy}")
    return array


def read_arrays(path: Path, names: Sequence[str], remedy: str) -> dict[str, np.ndarray]:
    """Read arrays of a ``.npz`` file; its arguments and errors are those of :func:`map_array`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in names}
    except FileNotFoundError:
        raise InputError(f"{path}: not found; {remedy}") from None
    # AttributeError: of a single array, which is no context.
    except (*_DAMAGE, AttributeError) as error:
        raise InputError(f"{path}: cannot be read as arrays ({error}); {remedy}") from None
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise InputError(f"{path}: holds something else than arrays; {remedy}")
    return arrays
