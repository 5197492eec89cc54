"""The layers that pyproject.toml names hold, and an import that breaks one is refused with the reason."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fork_server import PYTHON

ROOT = Path(__file__).resolve().parents[1]


def lint(folder: Path) -> str:
    """What import-linter says of the package there."""
    command = [str(Path(PYTHON).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (result.returncode == 0) == (", 0 broken." in result.stdout), result.stdout + result.stderr
    return " ".join(result.stdout.split())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "fairseq_ext", tmp_path / "fairseq_ext", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_layers_hold() -> None:
    assert ", 0 broken." in lint(ROOT)


# A line that a module must not have, and what is said of it.
REFUSED = [
    ("metrics/tables.py", "from fairseq_ext.recipes import registry", "fairseq_ext.metrics", "fairseq_ext.recipes"),
    (
        "engine/steps.py",
        "def late():\n    import fairseq_ext.corpora.split",
        "fairseq_ext.engine",
        "fairseq_ext.corpora",
    ),
    (
        "recipes/topics/report.py",
        "from fairseq_ext.recipes.recurrent import report",
        "fairseq_ext.recipes.topics",
        "fairseq_ext.recipes.recurrent",
    ),
    ("modules/routers.py", "import fairseq", "fairseq_ext.modules", "fairseq"),
    ("corpora/blocks.py", "import torch", "fairseq_ext.corpora", "torch"),
]
REASONS = (
    "move the needed code to a package below both",
    "cannot be read, tested or loaded alone",
    "Move what two recipes need to a library below",
    "modules/ is plain torch",
    "Corpora are read and cleaned without torch",
)


def test_imports_across_layers_are_refused(project: Path) -> None:
    for module, line, _, _ in REFUSED:
        with (project / "fairseq_ext" / module).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    said = lint(project)
    for _, _, importer, imported in REFUSED:
        assert f"{importer} is not allowed to import {imported}" in said
    assert all(reason in said for reason in REASONS)


def test_a_package_of_no_layer_is_refused(project: Path) -> None:
    (project / "fairseq_ext" / "attic").mkdir()
    (project / "fairseq_ext" / "attic" / "__init__.py").touch()
    assert "attic" in lint(project)
