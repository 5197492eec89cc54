"""JSON files are read whole or named in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json


@pytest.mark.parametrize(
    "data",
    [b"{", b"[1]", b"\xff", b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"],
)
def test_what_is_no_object_is_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.json: .*; make it again$") as caught:
        read_json(path, "make it again")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["missing", "."])
def test_missing_files_and_folders_are_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="; make it again"):
        read_json(tmp_path / name, "make it again")
