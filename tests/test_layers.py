"""The layers that pyproject.toml names hold."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.fork_server import PYTHON


def test_the_layers_hold() -> None:
    command = [str(Path(PYTHON).with_name("lint-imports")), "--no-cache"]
    root = Path(__file__).resolve().parents[1]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ", 0 broken." in " ".join(result.stdout.split()), result.stdout + result.stderr
