"""Compressed files: whole ones are read whole, damaged ones never pass for whole, bytes are repeatable."""

import gzip
import io
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd

from fairseq_ext.corpora.compressed import SUFFIXES, open_binary, read_chunks
from fairseq_ext.inputs.errors import InputError

PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".zst": zstd.compress, ".xz": lzma.compress}
# Numbers and their cubes: too irregular to be packed into one block.
LINES = [b"%d %d\n" % (number, number**3 * 7919) for number in range(20_000)]
TEXT = b"".join(LINES)


def write(path: Path, text: bytes) -> bytes:
    with open_binary(path, "wb") as file:
        file.write(text)
    return path.read_bytes()


def read(path: Path) -> bytes:
    with open_binary(path, "rb") as file:
        return b"".join(read_chunks(file, str(path)))


@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
def test_what_is_written_is_read(tmp_path: Path, suffix: str) -> None:
    packed = write(tmp_path / f"x{suffix}", TEXT)
    assert (len(packed) < len(TEXT) / 2) == bool(suffix)
    assert read(tmp_path / f"x{suffix}") == TEXT


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bytes_depend_on_the_text_alone(tmp_path: Path, suffix: str) -> None:
    os.utime(tmp_path, (0, 0))
    first = write(tmp_path / f"first{suffix}", TEXT)
    assert write(tmp_path / f"second{suffix}", TEXT) == first
    assert b"first" not in first
    if suffix == ".gz":
        assert first[4:8] == bytes(4), "no time in the header"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_streams_end_to_end_are_read_whole(tmp_path: Path, suffix: str) -> None:
    middle = bytes(8) if suffix == ".xz" else b""  # Padding, which xz allows.
    (tmp_path / f"x{suffix}").write_bytes(b"".join([PACK[suffix](line) + middle for line in LINES[:50]]))
    assert read(tmp_path / f"x{suffix}") == b"".join(LINES[:50])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_cut_off_anywhere_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    packed = write(path, TEXT)
    cuts = [*range(20), *range(20, len(packed) - 20, len(packed) // 12), *range(len(packed) - 20, len(packed))]
    for cut in cuts:
        path.write_bytes(packed[:cut])
        with pytest.raises(InputError, match=rf"x{suffix}: damaged or cut off .*; fetch or copy it again"):
            read(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_second_stream_cut_off_is_an_error(tmp_path: Path, suffix: str) -> None:
    path, packed = tmp_path / f"x{suffix}", PACK[suffix](b"".join(LINES[:1000]))
    for cut in [*range(1, 24), *range(len(packed) - 12, len(packed))]:
        path.write_bytes(packed + packed[:cut])
        with pytest.raises(InputError, match=r"damaged or cut off after line \d"):
            read(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_garbage_behind_the_end_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(PACK[suffix](TEXT) + b"this is no stream and does not begin like one")
    with pytest.raises(InputError, match=f"damaged or cut off after line {len(LINES)}"):
        read(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_changed_byte_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    packed = bytearray(write(path, TEXT))
    packed[len(packed) // 2] ^= 1
    path.write_bytes(packed)
    with pytest.raises(InputError, match="damaged or cut off after line"):
        read(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_error_says_how_far_the_file_is_whole(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    packed = write(path, TEXT)
    path.write_bytes(packed[: len(packed) * 3 // 4])
    seen: list[bytes] = []
    with pytest.raises(InputError) as caught, open_binary(path, "rb") as file:
        seen.extend(read_chunks(file, "x"))
    whole = b"".join(seen)
    assert whole
    assert TEXT.startswith(whole)
    assert str(caught.value).startswith(f"x: damaged or cut off after line {whole.count(bytes([10]))} ")


def test_plain_bytes_under_a_compressed_name(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        (tmp_path / f"x{suffix}").write_bytes(b"one\ntwo\n" * 100)
        with pytest.raises(InputError, match=rf"x{suffix}: damaged or cut off after line 0"):
            read(tmp_path / f"x{suffix}")


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.gz: not found"):
        read(tmp_path / "nowhere.gz")
    (tmp_path / "folder.gz").mkdir()
    with pytest.raises(InputError, match=r"folder\.gz: is a folder, not a file"):
        read(tmp_path / "folder.gz")


def test_failing_disk_is_named() -> None:
    class Failing(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read1(4)

    with pytest.raises(InputError, match=r"x: damaged or cut off after line 2 \(.*Input/output error"):
        list(read_chunks(Failing(b"a\nb\nc\n"), "x"))
