"""Arrays are read from what is in a file, not from what its header claims."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.inputs.array_file import map_array, read_arrays
from fairseq_ext.inputs.errors import InputError


def header(text: str) -> bytes:
    data = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(data)) + data


HUGE = header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 3), }")


def test_arrays_are_read(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", allow_pickle=False, x=array, y=array[0])
    assert np.array_equal(map_array(tmp_path / "a.npy", "…"), array)
    assert np.array_equal(read_arrays(tmp_path / "a.npz", ["y"], "…")["y"], array[0])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HUGE,
        HUGE.replace(b"(1000000000000, 3)", b"(-1, 3)"),
        HUGE.replace(b"<f4", b"|O"),
        header("{" * 9000),
    ],
)
def test_headers_that_lie_are_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.npy: (?s:.*); label again"):
        map_array(tmp_path / "a.npy", "label again")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", data)
    with pytest.raises(InputError, match=r"a\.npz: (?s:.*); train again"):
        read_arrays(tmp_path / "a.npz", ["x"], "train again")


def test_what_is_missing_or_of_another_kind_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", allow_pickle=False, x=np.zeros(3))
    for read in (lambda path: map_array(path, "…"), lambda path: read_arrays(path, ["y"], "…")):
        for name in ("a.npz", "missing"):
            with pytest.raises(InputError, match=name):
                read(tmp_path / name)
