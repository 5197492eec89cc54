"""Files that a user may have changed: arrays without pickles, JSON, and names of domains."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.inputs.array_file import map_array, read_arrays
from fairseq_ext.inputs.domain_names import check_domain_names, read_domain_names
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json


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
    for path, names in ((tmp_path / "a.npz", ["z"]), (tmp_path / "missing", ["y"])):
        with pytest.raises(InputError, match=path.name):
            read_arrays(path, names, "…")
        with pytest.raises(InputError, match=path.name):
            map_array(path, "…")


@pytest.mark.parametrize("data", [b"", HUGE, HUGE.replace(b"<f4", b"|O"), header("{" * 9000)])
def test_headers_that_lie_are_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.npy: (?s:.*); label again"):
        map_array(tmp_path / "a.npy", "label again")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", data)
    with pytest.raises(InputError, match=r"a\.npz: (?s:.*); train again"):
        read_arrays(tmp_path / "a.npz", ["x"], "train again")


@pytest.mark.parametrize("data", [None, b"{", b"[1]", b"\xff", b'{"a": ' + b"[" * 100_000])
def test_what_is_no_json_object_is_one_line(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "a.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.json: .*; make it again$") as caught:
        read_json(path, "make it again")
    assert str(caught.value).isprintable()


def test_a_new_domain_is_not_named_like_a_route_but_old_data_is_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="corpora: 'gates'"):
        check_domain_names(["gates"], "corpora")
    (tmp_path / "domains.txt").write_text("gates\n")
    assert read_domain_names(tmp_path / "domains.txt") == ["gates"]
