"""What is exported is whole, known again, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import shutil
from importlib.metadata import version
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


def rewrite(folder: Path, **changes: Any) -> None:
    """Change a manifest as one who also mends its checksum."""
    content = json.loads((folder / MANIFEST_FILE).read_text())
    del content["sha256"]
    content |= changes
    (folder / MANIFEST_FILE).write_text(json.dumps({**content, "sha256": digest(content)}))


def test_it_says_what_it_is(exported: Path) -> None:
    manifest = verify(exported / "gad")
    expected = small_systems.manifest("gad", classifier="tfidf")
    assert dataclasses.replace(manifest, files={}, versions={}) == expected
    assert {"model.pt", "dict.en.txt", "dict.pl.txt", "domains.txt", "classifier/tfidf.json"} <= manifest.files.keys()
    assert manifest.versions["torch"] == version("torch")


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
    with pytest.raises(
        InputError, match=rf"{name}: (damaged or edited|cannot be read as JSON).*export the system again"
    ):
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
        ({"format": 1}, "of format 1"),
        ({"languages": ["en"]}, "languages: "),
        ({"domains": ["base", "law"]}, "'base' means a way to translate"),
        ({"generation": {"beam": True}}, "generation: "),
        ({"generation": {"sampling": 1}}, "generation: "),
        ({"classifier": "pickle"}, "classifier: "),
        ({"files": {"../model.pt": {"bytes": 1, "sha256": "0" * 64}}}, "files: "),
        ({"files": {}}, "files: lacks domains.txt"),
    ],
)
def test_a_manifest_of_another_kind_is_one_line(copy: Path, changes: dict[str, Any], message: str) -> None:
    rewrite(copy, **changes)
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
            with pytest.raises(InputError, match="is not as it was exported; move it away"), writing(directory):
                pytest.fail("began")
        assert file.read_text() == "mine"
