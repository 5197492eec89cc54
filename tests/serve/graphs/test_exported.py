"""What is exported is whole, known again, and nothing else."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from fairseq_ext.base.errors import InputError, line_of
from fairseq_ext.serve.graphs.exported import Parts, complete, writing
from fairseq_ext.serve.runtime.manifest import (
    FLOAT32,
    INT8,
    MANIFEST_FILE,
    PRECISIONS,
    digest,
    graph_files,
    read_manifest,
    verify,
)
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.serve.runtime.vocabulary import VOCABULARY_FILE
from tests.serve.graphs import small_systems


@pytest.fixture
def copy(exported: Path, tmp_path: Path) -> Path:
    shutil.copytree(exported / "gad", tmp_path / "gad")
    return tmp_path / "gad"


def test_weights_and_options_alone_are_kept(exported: Path, systems: Path) -> None:
    state = torch.load(exported / "gad/model.pt", weights_only=True)
    assert "last_optimizer_state" not in state
    trained = torch.load(systems / "gad/model.pt", weights_only=True)
    assert state["model"].keys() == trained["model"].keys()
    assert all(torch.equal(state["model"][name], value) for name, value in trained["model"].items())
    assert "/" in trained["cfg"]["task"]["data"]
    assert state["cfg"]["task"]["data"] == "" == state["cfg"]["model"].data


@pytest.mark.parametrize("name", ["model.pt", MANIFEST_FILE])
def test_what_is_changed_cut_off_or_gone_is_named(copy: Path, name: str) -> None:
    file = copy / name
    content = file.read_bytes()
    middle = len(content) // 2
    file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises(InputError, match=rf"{name}: .*; export the system again"):
        verify(copy)
    file.write_bytes(content[:middle])
    with pytest.raises(InputError, match=f"{name}: "):
        read_manifest(copy)
    file.unlink()
    with pytest.raises(InputError, match=f"{name}: not found"):
        read_manifest(copy)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_is_read_is_checked(copy: Path, precision: str) -> None:
    unread = {"model.pt", *graph_files(INT8 if precision == FLOAT32 else FLOAT32)}
    (copy / "encoder.int8.data").write_bytes(b"constants")
    complete(copy, read_manifest(copy))
    for name in read_manifest(copy).files:
        content = (copy / name).read_bytes()
        (copy / name).write_bytes(bytes(len(content)))
        if name in unread or (name == "encoder.int8.data" and precision == FLOAT32):
            verify(copy, precision)
        else:
            with pytest.raises(InputError, match=f"{name}: was damaged or edited"):
                verify(copy, precision)
        (copy / name).write_bytes(content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 1}, "has format 1"),
        ({"domains": ["base", "law"]}, "'base' is reserved"),
        ({"generation": {"beam": True}}, "generation: "),
        ({"generation": {"sampling": 1}}, "generation: "),
        ({"classifier": "pickle"}, "classifier: "),
        ({"files": {"../model.pt": {"bytes": 1, "sha256": "0" * 64}}}, "files: "),
        ({"files": {}}, "files: domains.txt is missing"),
    ],
)
def test_a_manifest_of_another_kind_is_one_line(copy: Path, changes: dict[str, Any], message: str) -> None:
    content = json.loads((copy / MANIFEST_FILE).read_text()) | changes
    del content["sha256"]
    (copy / MANIFEST_FILE).write_text(json.dumps({**content, "sha256": digest(content)}))
    with pytest.raises(InputError, match=message) as caught:
        read_manifest(copy)
    assert "\n" not in str(caught.value)


def vocabulary(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = json.loads((folder / VOCABULARY_FILE).read_text())
        (folder / VOCABULARY_FILE).write_text(json.dumps(content | changes))

    return change


def tables(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        with np.load(folder / "tables.npz") as file:
            arrays = {key: file[key] for key in file.files}
        np.savez(folder / "tables.npz", **arrays | {name: change(arrays[name])})

    return rewrite


def replaced(name: str, by: str | bytes) -> Callable[[Path], None]:
    return lambda folder: (
        (folder / name).write_bytes(by if isinstance(by, bytes) else (folder / by).read_bytes()) and None
    )


def from_outside(location: str) -> Callable[[Path], None]:
    """Change a graph to take a constant from another file."""

    def change(folder: Path) -> None:
        (folder.parent / "secret").write_bytes(bytes(1 << 16))
        model = onnx.load(folder / "encoder.onnx")
        constant = next(each for each in model.graph.initializer if len(each.raw_data) > 1000)
        place = {"location": location, "offset": 0, "length": len(constant.raw_data)}
        constant.ClearField("raw_data")
        constant.data_location = onnx.TensorProto.EXTERNAL
        for key, value in place.items():
            constant.external_data.add(key=key, value=str(value))
        (folder / "encoder.onnx").write_bytes(model.SerializeToString())

    return change


FORGED: list[tuple[Callable[[Path], None], dict[str, Any], str]] = [
    *((vocabulary(**{key: value}), {}, "vocabulary.json: has numbers of symbols") for key, value in [
        ("pad", -1), ("eos", 10**6), ("last", 10**6), ("before", [10**6]), ("prefix", [-1]), ("not_printed", [10**6]),
        ("longest_target", 0), ("longest_source", 10**12), ("source", ["a"]),
    ]),
    (vocabulary(has_tags=True, source=["a"] * 100), {}, "has numbers of symbols"),
    (tables("rows", lambda rows: rows[:3]), {}, "tables.npz: does not fit"),
    (tables("rows", lambda rows: rows.astype(complex)), {}, "tables.npz: does not fit"),
    (tables("bias", lambda bias: bias[:3]), {}, "tables.npz: does not fit"),
    (tables("source", lambda places: places + 10**6), {}, "tables.npz: does not fit"),
    (tables("target", lambda places: -1 - places), {}, "tables.npz: does not fit"),
    (tables("rows", lambda rows: np.concatenate([rows, rows], 1)), {}, "ONNX Runtime cannot compute it"),
    (from_outside("../secret"), {}, "encoder.onnx: ONNX Runtime cannot compute it"),
    (from_outside("/etc/hostname"), {}, "encoder.onnx: ONNX Runtime cannot compute it"),
    (from_outside("missing.data"), {}, "encoder.onnx: ONNX Runtime cannot compute it"),
    (replaced("encoder.onnx", b"hello"), {}, "encoder.onnx: ONNX Runtime cannot compute it"),
    (replaced("encoder.onnx", "decoder.onnx"), {}, "encoder.onnx: ONNX Runtime cannot compute it"),
    (replaced("best.onnx", "output.onnx"), {}, "best.onnx: ONNX Runtime cannot compute it"),
    (replaced("sentencepiece.model", b"hello"), {}, "sentencepiece.model: cannot be loaded"),
    (lambda _: None, {"name": 'a\nmsgid "x"'}, "is not a name on one line"),
    (lambda _: None, {"base": {"model": "a\x1b[2J"}}, "is not a name on one line"),
    (lambda _: None, {"languages": ["en", "../pl"]}, "'../pl' is not a language code"),
    (lambda _: None, {"domains": ["law"]}, "adapters for 1 domains"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("change", "manifest", "message"), FORGED)
def test_files_with_right_checksums_are_checked_too(
    copy: Path, change: Callable[[Path], None], manifest: dict[str, Any], message: str
) -> None:
    change(copy)
    content = json.loads((copy / MANIFEST_FILE).read_text()) | manifest
    del content["sha256"]
    for name in content["files"]:
        data = (copy / name).read_bytes()
        content["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (copy / MANIFEST_FILE).write_text(json.dumps({**content, "sha256": digest(content)}))
    with pytest.raises(InputError, match=message) as caught:
        SystemTranslator.load(copy)
    assert "\n" not in line_of(caught.value)


@pytest.mark.parametrize("name", [MANIFEST_FILE, VOCABULARY_FILE, "encoder.onnx"])
def test_a_pipe_is_not_read(copy: Path, name: str) -> None:
    (copy / name).unlink()
    os.mkfifo(copy / name)
    with pytest.raises(InputError, match=name):
        SystemTranslator.load(copy)


def test_another_export_takes_its_place(systems: Path, data: Path, copy: Path) -> None:
    with writing(copy) as folder:
        Parts(systems / "mix/model.pt", data).write(folder, small_systems.manifest("mix"))
    assert verify(copy).name == "mix"
    assert not (copy / "classifier").exists()
    assert sorted(path.name for path in copy.parent.iterdir()) == [".gad.lock", "gad"]


def test_what_is_no_export_stays(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    for file in (copy / "notes.txt", tmp_path / "thesis/chapter.tex"):
        file.write_text("mine")
        for directory in (file.parent, file):
            with pytest.raises(InputError, match="is not an unchanged export"), writing(directory):
                pytest.fail("began")
        assert file.read_text() == "mine"
