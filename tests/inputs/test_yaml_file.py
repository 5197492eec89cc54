"""A YAML file is plain data of bounded size, or an error in one line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.inputs import yaml_file
from fairseq_ext.inputs.errors import InputError, line_of
from fairseq_ext.inputs.yaml_file import load_yaml

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
        ("~", None),
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
        ("k: " + "[" * 3000 + "]" * 3000, "deeper than 30"),
        (BOMB, "262,144 characters"),
        (MERGE_BOMB, "aliases expanded|deeper than 30"),
        ("k: 1\n# " + "x" * (1 << 20), "larger than 1 MiB"),
        (b"k: \xff", "cannot be read"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_what_is_not_plain_is_one_line_at_once(tmp_path: Path, text: str | bytes, message: str) -> None:
    start = time.process_time()
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path, text)
    assert time.process_time() - start < 3
    assert str(caught.value).startswith(f"{tmp_path}/c.yaml: ")
    assert str(caught.value).isprintable()
    assert len(line_of(caught.value)) < 1500


def test_a_file_that_is_none_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.yaml", tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(InputError, match="cannot be read"):
            load_yaml(path)


def test_aliases_are_written_out_and_merged_keys_may_be_changed(tmp_path: Path) -> None:
    text = "a: &a {x: 1, y: &t [2]}\nouter: {inner: &b {<<: *a, y: 3}}\nc: {<<: [*b, *a], z: *t}\n"
    expected = {"a": {"x": 1, "y": [2]}, "outer": {"inner": {"x": 1, "y": 3}}, "c": {"x": 1, "y": 3, "z": [2]}}
    assert load(tmp_path, text) == expected


def test_the_bounds_are_documented() -> None:
    page = " ".join((Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text(encoding="utf-8").split())
    assert f"nested at most {yaml_file._DEEPEST} deep" in page
    assert f"may hold {yaml_file._LARGEST_CONTENT:,} characters" in page
