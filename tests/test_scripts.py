"""The scripts find the project, whatever the shell that calls them has set."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(path.name for path in (ROOT / "scripts").glob("*.sh") if path.name != "env.sh")
STAMPS = {
    ".venv/.installed-core": ["requirements-build.txt", "requirements.txt"],
    ".venv/.installed-dev": ["requirements-dev.txt", "requirements-cluster.txt", "requirements-serve.txt"],
    ".venv/.installed-serve": ["requirements-serve.txt"],
    ".venv-comet/.installed": ["requirements-comet.txt"],
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The scripts, with an installed environment whose python only tells where it is."""
    project = tmp_path / "project"
    shutil.copytree(ROOT / "scripts", project / "scripts")
    for name in {name for names in STAMPS.values() for name in names}:
        shutil.copy(ROOT / name, project / name)
    for stamp, names in STAMPS.items():
        python = (project / stamp).parent / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text('#!/bin/sh\necho "$0"\n')
        python.chmod(0o755)
        text = b"".join((project / name).read_bytes() for name in names)
        checksum = subprocess.run(["cksum"], input=text, capture_output=True, check=True).stdout
        (project / stamp).write_bytes(checksum)
    return project


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_search_path_for_folders_does_not_mislead_the_scripts(script: str, project: Path) -> None:
    before = sorted(project.rglob("*"))
    result = subprocess.run(
        ["bash", f"scripts/{script}"],
        cwd=project,
        env={**os.environ, "CDPATH": ".:..:scripts"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    printed = {line for line in result.stdout.splitlines() if line}
    assert printed == (set() if script == "comet.sh" else {f"{project}/.venv/bin/python"})
    assert sorted(project.rglob("*")) == before
