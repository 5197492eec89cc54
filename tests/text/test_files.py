"""Files, compressed or in archives: whole ones are read whole, damaged and hostile ones end in one line."""

import os
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text import files
from fairseq_ext.text.files import SUFFIXES, open_binary, read_chunks, read_file, read_members
from tests.text.test_entries import zipped

# Numbers and their cubes: too irregular to be packed into one block.
LINES = [b"%d %d\n" % (number, number**3 * 7919) for number in range(10_000)]
TEXT = b"".join(LINES)
WANTED = re.compile(r"(?:.*/)?de\.po")


def write(path: Path, text: bytes) -> bytes:
    with open_binary(path, "wb") as file:
        file.write(text)
    return path.read_bytes()


def read(path: Path, data: bytes | None = None) -> bytes:
    if data is not None:
        path.write_bytes(data)
    with open_binary(path, "rb") as file:
        return b"".join(read_chunks(file, str(path)))


@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
def test_what_is_written_is_read_and_depends_on_the_text_alone(tmp_path: Path, suffix: str) -> None:
    packed = write(tmp_path / f"first{suffix}", TEXT)
    assert (len(packed) < len(TEXT) / 2) == bool(suffix)
    assert read(tmp_path / f"first{suffix}") == TEXT
    assert write(tmp_path / f"second{suffix}", TEXT) == packed
    assert b"first" not in packed
    assert suffix != ".gz" or packed[4:8] == bytes(4), "no time in the header"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damage_never_passes_for_whole(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    packed = write(path, TEXT)
    changed = bytearray(packed)
    changed[len(packed) // 2] ^= 1
    damaged = [packed[:cut] for cut in (0, 1, 9, 19, len(packed) // 3, len(packed) - 1)]
    damaged += [bytes(changed), TEXT, packed + packed[: len(packed) - 1]]
    for data in damaged:
        with pytest.raises(InputError, match=rf"x{suffix}: is damaged"):
            read(path, data)


def test_negative_size_causes_no_endless_loop(tmp_path: Path) -> None:
    info = tarfile.TarInfo("de.po")
    info.size = -512
    (tmp_path / "x.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(InputError, match=r"x\.tar"):
        read_members(tmp_path / "x.tar", WANTED)


def test_limit_is_one_of_all_files_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 1 << 20)
    path = tmp_path / "x.whl"
    path.write_bytes(zipped({"a/de.po": bytes(1 << 19), "b/de.po": bytes(1 << 19)}))
    assert sum(map(len, read_members(path, WANTED).values())) == 1 << 20
    path.write_bytes(zipped({"a/de.po": bytes(1 << 20), "b/de.po": bytes(1 << 20)}))
    with pytest.raises(InputError, match=r"x\.whl/b/de\.po: exceeds the limit"):
        read_members(path, WANTED)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_not_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "de.po")
    for opens in (read_file, read):
        with pytest.raises(InputError, match=r"de\.po: "):
            opens(tmp_path / "de.po")
