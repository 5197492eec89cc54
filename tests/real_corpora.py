"""Real corpora that some tests and measurements use; they are not part of the project."""

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("CORPORA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def corpus(name: str) -> Path:
    """A folder or file of the corpora; skips the test where it is absent."""
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"needs {path}; set CORPORA to the folder that holds {name}")
    return path
