"""What a directory was made from: changes are told in one line, and a file is read again as soon as it changes."""

import hashlib
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from fairseq_ext.base import hashing
from fairseq_ext.base.hashing import hash_file
from fairseq_ext.base.provenance import Provenance, changes


def provenance(inputs: tuple[str, ...] = (), **options: Any) -> Provenance:
    return Provenance(options, inputs)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"system": {"lr": 0.1}}, {"system": {"lr": 0.2}}, "system: lr was 0.1, is 0.2"),
        ({"system": {"a": 1}}, {"system": {"a": 1, "fp16": True}}, "system: fp16 was not given, is true"),
        ({"a": None}, {}, "a was null, is not given"),
        ({"extra": []}, {"extra": ["--lr", "1"]}, 'command line was "", is "--lr 1"'),
        ({"langs": ("en", "pl")}, {"langs": ["en", "pl"]}, ""),
        (dict.fromkeys("abcd", 1), {}, "; ".join(f"{name} was 1, is not given" for name in "abc") + "; 1 more changes"),
    ],
)
def test_changed_options_are_named_with_both_values(before: dict, now: dict, words: str) -> None:
    assert changes(provenance(**before), provenance(**now), []) == words


def test_changed_inputs_are_named() -> None:
    now = provenance(("x", "z"))
    assert changes(provenance(("x", "y")), now, ["one", "two"]) == "its input two has changed"
    assert changes(provenance(("x",)), now, ["one", "two"]) == "the number of its inputs has changed"


# Contents of files


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Is called with every file that is read; the clock stands an hour ahead, so that files are not new."""
    now = hashing.time.time_ns
    monkeypatch.setattr(hashing.time, "time_ns", lambda: now() + 3600 * 10**9)
    counted = Mock(wraps=hashlib.sha256)
    monkeypatch.setattr(hashing.hashlib, "sha256", counted)
    return counted


def test_an_unchanged_file_is_read_once_also_under_another_name(tmp_path: Path, reads: Mock) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("text")
    first = hash_file(tmp_path / "a" / "file")
    (tmp_path / "a").rename(tmp_path / "b")
    assert hash_file(tmp_path / "b" / "file") == first == hashlib.new("sha256", b"text").hexdigest()
    assert reads.call_count == 1


def test_a_file_changed_in_place_with_the_same_size_and_time_is_read_again(tmp_path: Path, reads: Mock) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    before = file.stat()
    first = hash_file(file)
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # file systems tell times in steps
        file.write_text("two")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert hash_file(file) != first
    assert reads.call_count == 2


def test_a_file_that_has_just_been_written_is_not_trusted_to_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "_identity", lambda _: (1,))  # as within a tick of the file system's clock
    file = tmp_path / "file"
    for text in ("one", "two"):
        file.write_text(text)
        assert hash_file(file) == hashlib.sha256(text.encode()).hexdigest()
