"""A file is read once as long as it stays as it is, and again as soon as it does not."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from fairseq_ext.engine import hashing
from fairseq_ext.engine.hashing import hash_file


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every file that is read; the clock stands an hour ahead, so that files are not new."""
    started: list[int] = []

    def sha256() -> object:
        started.append(1)
        return hashlib.new("sha256")

    now = hashing.time.time_ns
    monkeypatch.setattr(hashing.time, "time_ns", lambda: now() + 3600 * 10**9)
    monkeypatch.setattr(hashing.hashlib, "sha256", sha256)
    return started


def test_an_unchanged_file_is_read_once_also_under_another_name(tmp_path: Path, reads: list[int]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("text")
    first = hash_file(tmp_path / "a" / "file")
    (tmp_path / "a").rename(tmp_path / "b")
    assert hash_file(tmp_path / "b" / "file") == first == hashlib.new("sha256", b"text").hexdigest()
    assert len(reads) == 1


def test_a_file_changed_in_place_with_the_same_size_and_time_is_read_again(tmp_path: Path, reads: list[int]) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    before = file.stat()
    first = hash_file(file)
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # file systems tell times in steps
        file.write_text("two")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert hash_file(file) != first
    assert len(reads) == 2


def test_a_file_that_has_just_been_written_is_not_trusted_to_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "_identity", lambda _: (1,))  # as within a tick of the file system's clock
    file = tmp_path / "file"
    for text in ("one", "two"):
        file.write_text(text)
        assert hash_file(file) == hashlib.sha256(text.encode()).hexdigest()
