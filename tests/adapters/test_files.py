"""Adapters out of a model and into one: bit for bit, or refused in one line."""

import hashlib
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from fairseq_ext.adapters.adapter_file import read_adapters, write_adapters
from fairseq_ext.adapters.domains import remove_domain
from fairseq_ext.adapters.files import attach_adapters, export_adapters
from fairseq_ext.adapters.system import System
from fairseq_ext.base.errors import InputError


def assert_same_state(one: System, other: System) -> None:
    assert one.model.keys() == other.model.keys()
    for key, value in one.model.items():
        assert value.dtype == other.model[key].dtype, key
        assert torch.equal(value, other.model[key]), key


@pytest.fixture
def law(systems: Path, tmp_path: Path) -> Path:
    """GAD's adapter of one domain, as a file."""
    [path] = export_adapters(systems / "gad/model.pt", ["law"], tmp_path / "law.safetensors")
    return path


@pytest.mark.parametrize(
    ("name", "as_folder"),
    [("ad", True), ("gad", False), ("ad-lora", False), ("gad-lora", True), ("gad-base", True)],
)
def test_all_adapters_put_on_the_base_are_the_model(systems: Path, tmp_path: Path, name: str, as_folder: bool) -> None:
    output = tmp_path / ("files" if as_folder else "all.safetensors")
    paths = export_adapters(systems / name / "model.pt", [], output)
    assert len(paths) == (3 if as_folder else 1)
    attached = attach_adapters(systems / "mix/model.pt", paths[::-1], tmp_path / "attached.pt")
    again = System.read(tmp_path / "attached.pt")
    assert_same_state(again, System.read(systems / name / "model.pt"))
    assert again.names == attached.names == ("law", "med", "sub")
    assert again.kind == System.read(systems / name / "model.pt").kind


def test_equal_adapters_have_equal_files(systems: Path, tmp_path: Path, law: Path) -> None:
    for number in range(8):
        [again] = export_adapters(systems / "gad/model.pt", ["law"], tmp_path / f"{number}.safetensors")
        assert again.read_bytes() == law.read_bytes()


def test_one_domain_comes_back_beside_the_others(systems: Path, tmp_path: Path, law: Path) -> None:
    remove_domain(systems / "gad/model.pt", "law", tmp_path / "two.pt")
    assert_same_state(
        attach_adapters(tmp_path / "two.pt", [law], tmp_path / "three.pt"), System.read(systems / "gad/model.pt")
    )


def test_another_base_is_refused_by_its_first_tensor_that_differs(systems: Path, tmp_path: Path, law: Path) -> None:
    state = torch.load(systems / "mix/model.pt", weights_only=False)
    for key in ("encoder.layers.1.fc2.bias", "decoder.layers.0.fc1.weight"):
        state["model"][key] = state["model"][key] + 1e-6
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"other\.pt: the tensor encoder\.layers\.1\.fc2\.bias differs"):
        attach_adapters(tmp_path / "other.pt", [law], tmp_path / "out.pt")
    assert not (tmp_path / "out.pt").exists()


def write_by_hand(entries: dict[str, str], _: Any) -> None:
    """A manifest whose own hash is right."""
    text = json.dumps({**json.loads(entries["manifest"].partition(" ")[2]), "domains": ["../law"]})
    entries["manifest"] = f"{hashlib.sha256(text.encode()).hexdigest()} {text}"


ROW = "decoder.layers.1.adapter.bank.up_bias@law"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda entries, _: entries.update(manifest=entries["manifest"].replace('"law"', '"LAW"')), "its manifest was"),
        (lambda entries, _: entries.clear(), "no manifest"),
        (write_by_hand, "manifest: domains: "),
        (lambda _, tensors: tensors[ROW][3].add_(1), f"the tensor {ROW} was changed"),
        (lambda _, tensors: tensors.pop(ROW), f"the tensor {ROW} is missing"),
    ],
)
def test_changed_adapter_files_are_refused(law: Path, change: Callable, message: str) -> None:
    with safe_open(law, framework="pt") as file:
        entries, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(entries, tensors)
    save_file(tensors, law, entries)
    with pytest.raises(InputError, match=message):
        read_adapters(law)


def test_computed_options_are_refused(systems: Path, tmp_path: Path, law: Path) -> None:
    file = read_adapters(law)
    options = {**file.manifest.options, "frozen_mode": "${oc.env:HOME}"}
    write_adapters(law, replace(file.manifest, options=options, tensors={}), file.rows, file.shared)
    with pytest.raises(InputError, match=r"law.*its option frozen_mode is computed"):
        attach_adapters(systems / "mix/model.pt", [law], tmp_path / "out.pt")
    assert not (tmp_path / "out.pt").exists()


def test_adapters_of_another_size_are_refused(systems: Path, tmp_path: Path, law: Path) -> None:
    file = read_adapters(law)
    rows = {"law": {key: row[: len(row) // 2] if "down" in key else row for key, row in file.rows["law"].items()}}
    write_adapters(law, file.manifest, rows, {})
    with pytest.raises(InputError, match=r"adapter\.bank\.down_bias@law has the shape \(16,\), .* \(32,\)"):
        attach_adapters(systems / "mix/model.pt", [law], tmp_path / "out.pt")


def test_writing_needs_no_copy(law: Path, tmp_path: Path) -> None:
    file, large = read_adapters(law), torch.zeros(1 << 21)
    tracemalloc.start()
    write_adapters(tmp_path / "large.safetensors", file.manifest, {"law": {"large": large}}, {})
    assert tracemalloc.get_traced_memory()[1] < large.nbytes / 4
    tracemalloc.stop()
    assert torch.equal(read_adapters(tmp_path / "large.safetensors").rows["law"]["large"], large)


def test_existing_adapters_and_files_are_not_replaced(systems: Path, tmp_path: Path, law: Path) -> None:
    before = law.read_bytes()
    with pytest.raises(InputError, match="adapter 'law' already exists"):
        attach_adapters(systems / "gad/model.pt", [law], tmp_path / "out.pt")
    with pytest.raises(InputError, match="already exists"):
        export_adapters(systems / "gad/model.pt", ["med"], law)
    with pytest.raises(InputError, match="already exists"):
        attach_adapters(systems / "mix/model.pt", [law], systems / "gad/model.pt")
    assert law.read_bytes() == before
