"""Files that a user may have changed: arrays without pickles, JSON, names of domains, origins, YAML of bounded size."""

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.base.array_file import map_array, read_arrays
from fairseq_ext.base.domain_names import check_domain_names, read_domain_names
from fairseq_ext.base.errors import InputError, line_of
from fairseq_ext.base.json_file import read_json
from fairseq_ext.base.origin import ORIGIN_FILE, Origin, read_origin
from fairseq_ext.base.yaml_file import load_yaml
from tests.odd_files import time_limit


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
    for name in ("a.npz", "missing"):
        with pytest.raises(InputError, match=name):
            read_arrays(tmp_path / name, ["z"], "…")
        with pytest.raises(InputError, match=name):
            map_array(tmp_path / name, "…")


@pytest.mark.parametrize("data", [b"", HUGE, HUGE.replace(b"<f4", b"|O"), header("{" * 9000)])
def test_wrong_array_headers_are_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.npy: (?s:.*); label again"):
        map_array(tmp_path / "a.npy", "label again")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", data)
    with pytest.raises(InputError, match=r"a\.npz: (?s:.*); train again"):
        read_arrays(tmp_path / "a.npz", ["x"], "train again")


@pytest.mark.parametrize("data", [None, b"{", b"[1]", b"\xff", b'{"a": ' + b"[" * 100_000, rb'{"a": "\ud800"}'])
def test_files_without_a_json_object_are_one_line(tmp_path: Path, data: bytes | None) -> None:
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


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (Origin("opus-mt-de-en"), "opus-mt-de-en; licence not stated"),
        (Origin("enpt", "Firefox", "MPL-2.0"), "Firefox: enpt; licence MPL-2.0"),
        (Origin("enpt", None, None, "fast==1", "MIT"), "enpt from fast==1; licence not stated (the package: MIT)"),
    ],
)
def test_origin_as_text_and_as_file(tmp_path: Path, origin: Origin, text: str) -> None:
    assert origin.text == text
    origin.write(tmp_path)
    assert read_origin(tmp_path) == origin


def test_a_missing_origin_is_none_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    assert read_origin(tmp_path) is None
    for content in ("{}", '{"model": 3}', '{"model": "x", "colour": "red"}', "[]"):
        (tmp_path / ORIGIN_FILE).write_text(content)
        with pytest.raises(InputError, match=f"{ORIGIN_FILE}: .*prepare the data again"):
            read_origin(tmp_path)


BOMB = "a: &a0 [x, x]\n" + "".join(f"k{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
MERGE_BOMB = "a: &a0 {x: 1}\n" + "".join(f"k{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))


def load(folder: Path, text: str | bytes) -> dict[str, Any]:
    path = folder / "c.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_yaml(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1_000", 1000),
        ("1e-5", "1e-5"),
        ("yes", True),
        ("[a, {b: 1}]", ["a", {"b": 1}]),
        ("2020-01-01", "2020-01-01"),
        ("'a\tb 中 😀'", "a\tb 中 😀"),
        ("[" * 28 + "]" * 28, json.loads("[" * 28 + "]" * 28)),
    ],
)
def test_plain_data_is_read(tmp_path: Path, text: str, value: Any) -> None:
    assert load(tmp_path, f"key: {text}\n") == {"key": value}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nseed: 2\n", "repeated key 'seed'"),
        ("seed: [", "not valid YAML"),
        ("", "keys and values"),
        ("k: .nan", "not a number"),
        ("k: !!int foo", "'foo'"),
        (f"k: {'9' * 5000}", "cannot be read"),
        ("k: !!python/object/apply:os.system [true]", "has the tag"),
        ("k: &a [*a]", "deeper than 30"),
        ('k: "\\0"', "control character"),
        ("k: |\n  two\n  lines\n", "line break"),
        ("k: " + "[" * 500 + "]" * 500, "deeper than 30"),
        ("k: " + "[{a: " * 2000, "deeper than 30"),  # PyYAML itself would take seconds to see that it has no end
        (BOMB, "262,144 characters"),
        (MERGE_BOMB, "aliases expanded|deeper than 30"),
        ("k: 1\n# " + "x" * (1 << 20), "larger than 1 MiB"),
        (b"k: \xff", "cannot be read"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_yaml_beyond_plain_data_is_one_line_at_once(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught, time_limit():
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/c.yaml: ")
    assert str(caught.value).isprintable()
    assert len(line_of(caught.value)) < 1500


def test_unreadable_yaml_files_are_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.yaml", tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(InputError, match="cannot be read"):
            load_yaml(path)


def test_aliases_are_written_out_and_merged_keys_may_be_changed(tmp_path: Path) -> None:
    text = "a: &a {x: 1, y: &t [2]}\nouter: {inner: &b {<<: *a, y: 3}}\nc: {<<: [*b, *a], z: *t}\n"
    expected = {"a": {"x": 1, "y": [2]}, "outer": {"inner": {"x": 1, "y": 3}}, "c": {"x": 1, "y": 3, "z": [2]}}
    assert load(tmp_path, text) == expected
