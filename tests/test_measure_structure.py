"""scripts/measure_structure.py counts subpackages, imports and cycles as one does by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "measure_structure.py"
FILES = {
    "__init__.py": '"""A package."""\n\nfrom pack import hall\n',
    "hall.py": "from pack.kitchen import stove\n",
    "kitchen/__init__.py": "",
    # Inside functions too; and within a subpackage there are no imports.
    "kitchen/stove.py": "def late():\n    import pack.cellar.wine\n\n    from pack.kitchen import oven\n",
    "kitchen/oven.py": "",
    "cellar/__init__.py": "",
    "cellar/wine.py": "from pack.kitchen import oven\n",
}


def measure(*arguments: str) -> str:
    result = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


def test_subpackages_imports_and_cycles_are_counted(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / "pack" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pack" / name).write_text(text)
    printed = measure("--package", str(tmp_path / "pack"))
    assert [line.split() for line in printed.splitlines()[1:5]] == [
        ["cellar", "1", "1", "1"],
        ["hall", "1", "1", "1"],
        ["kitchen", "3", "1", "2"],
        ["pack", "2", "1", "0"],
    ]
    assert printed.endswith("4 subpackages, 7 lines, 4 imports, cycles: 1\n    2: cellar, kitchen\n")


def test_what_is_no_package_is_named(tmp_path: Path) -> None:
    assert "has no __init__.py; give the directory of a Python package" in measure("--package", str(tmp_path))
