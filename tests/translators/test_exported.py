"""What is exported is whole, known again, and nothing else."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.manifest import MANIFEST_FILE, digest, read_manifest, verify
from fairseq_ext.translators.exported import Parts, writing
from tests.translators import small_systems


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
