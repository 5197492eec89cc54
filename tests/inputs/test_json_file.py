"""JSON files are read whole or named in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.inputs import json_file
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json


def test_an_object_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ä": [1, 2.5, null]}', encoding="utf-8")
    assert read_json(tmp_path / "a.json", "…") == {"ä": [1, 2.5, None]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cannot be read as JSON"),
        (b"{", "cannot be read as JSON"),
        (b"[1]", "holds no object of names and values but a list"),
        (b"\xff", "cannot be read as JSON"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "cannot be read as JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read as JSON"),
    ],
)
def test_what_is_no_object_is_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"a\.json: {message}.*; make it again") as caught:
        read_json(path, "make it again")
    assert str(caught.value).isprintable()


def test_missing_files_and_folders_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="x: not found; make it again"):
        read_json(tmp_path / "x", "make it again")
    with pytest.raises(InputError, match="cannot be read as JSON .*directory"):
        read_json(tmp_path, "make it again")


def test_files_without_end_are_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_file, "_LARGEST_FILE", 1 << 20)
    with pytest.raises(InputError, match="zero: cannot be read as JSON .it is larger than 1 MiB"):
        read_json(Path("/dev/zero"), "make it again")
