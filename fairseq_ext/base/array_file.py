"""Read numpy arrays from untrusted files, without pickles."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fairseq_ext.base.errors import InputError

# Exceptions of numpy and zipfile for damaged headers and truncated files; the last is raised for a .npy file instead of
# a .npz.
DAMAGE = (
    *(OSError, ValueError, KeyError, EOFError, OverflowError, MemoryError, TypeError, SyntaxError, RecursionError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, AttributeError),
)


def map_array(path: Path, remedy: str) -> np.ndarray:
    """Map the array of a ``.npy`` file into memory; ``remedy`` is the advice at the end of error messages."""
    with _named(path, remedy):
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise TypeError("it has several arrays")
    return array


def read_arrays(path: Path, names: Sequence[str], remedy: str) -> dict[str, np.ndarray]:
    """Read arrays by name from a ``.npz`` file; for ``remedy``, see :func:`map_array`."""
    with _named(path, remedy), np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in names}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise TypeError("it has other content")
    return arrays


@contextmanager
def _named(path: Path, remedy: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: not found; {remedy}") from None
    except DAMAGE as error:
        raise InputError(f"{path}: cannot be read as arrays ({error}); {remedy}") from None
