"""Reading numpy's arrays from files that a user may have changed: without pickles, and no more than the file holds."""

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

    Raises:
        InputError: if the file is missing, damaged, or no such file.
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


def read_arrays(path: Path, names: Sequence[str], remedy: str, most_bytes: int = 0) -> dict[str, np.ndarray]:
    """Read arrays of a ``.npz`` file.

    Args:
        path: of the file.
        names: of the arrays.
        remedy: how to come by a right file, for messages.
        most_bytes: what a compressed file may unpack to; one that is larger itself may be as large as it is.

    Raises:
        InputError: if the file is missing, damaged, or lacks one of them.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > max(path.stat().st_size, most_bytes):
                raise ValueError("it unpacks to more than it is")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in names}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("it holds something else")
        return arrays
    except FileNotFoundError:
        raise InputError(f"{path}: not found; {remedy}") from None
    except _DAMAGE as error:
        raise InputError(f"{path}: cannot be read as arrays ({error}); {remedy}") from None
