"""Files and folders that may not be read are one line, also where nothing is to be run."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fork_server import PYTHON
from tests.small_corpus import write_config, write_corpora

CAPABILITIES = "-dac_override,-dac_read_search"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may read everything"),
]


def prepare(config: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the preparation without the rights that root has beyond a file's owner."""
    drop = ["setpriv", f"--bounding-set={CAPABILITIES}", f"--inh-caps={CAPABILITIES}"] if os.geteuid() == 0 else []
    command = [*drop, PYTHON, "-m", "fairseq_ext.cli", "prepare", str(config), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder whose contents are locked by the test, and opened again for its removal."""
    (tmp_path / "corpora").mkdir()
    yield tmp_path / "corpora"
    for path in [tmp_path / "corpora", *(tmp_path / "corpora").glob("*")]:
        path.chmod(0o700)


@pytest.mark.parametrize("options", [["--dry-run"], []])
@pytest.mark.parametrize("case", ["file", "folder", "entry", "zip", "tar", "catalogues", "config", "work"])
def test_what_may_not_be_read_is_one_line(case: str, options: list[str], tmp_path: Path, locked: Path) -> None:
    write_corpora(locked)
    named, config = _lock(case, tmp_path, locked)
    result = prepare(config, *options)
    config.parent.chmod(0o700)
    if (case, options) == ("work", ["--dry-run"]):
        return  # nothing is written
    assert result.returncode == 1, result.stderr
    assert result.stderr.count("\n") == 1
    assert "Permission denied" in result.stderr or "you may not read it" in result.stderr
    assert str(named) in result.stderr
    assert not (tmp_path / "work" / "corpora").exists()


def _lock(case: str, root: Path, folder: Path) -> tuple[Path, Path]:
    """Lock what the case is about; returns its name, and the experiment file."""
    if case in ("file", "folder", "config", "work"):
        config = write_config(root / "c.yaml", folder)
        locked = {"file": folder / "bank.en", "folder": folder, "config": config, "work": root / "work"}[case]
        locked.mkdir(exist_ok=True) if case == "work" else None
    else:
        locked = {"entry": folder, "zip": folder / "a.zip", "tar": folder / "a.tar", "catalogues": folder / "a.mo"}[
            case
        ]
        if case == "zip":
            with zipfile.ZipFile(locked, "w") as archive:
                archive.writestr("a.en", "x\n")
        elif case != "entry":
            locked.write_bytes(b"x")
        entry = str(folder / "bank.{lang}") if case == "entry" else str(locked)
        config = write_config(root / "c.yaml", folder, corpora={"domains": {"bank": [entry]}})
    locked.chmod(0o500 if case == "work" else 0)
    return locked, config
