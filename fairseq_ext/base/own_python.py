"""Restart a script with the Python in ``.venv`` if the current Python lacks the project's libraries.

Runs with any Python 3, and does not import this package.
"""

import importlib.util
import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def use_own_python() -> None:
    """Restart the program with the project's Python, unless the current one has fairseq.

    Raises:
        SystemExit: if the project's Python does not exist, or has no fairseq.
    """
    if importlib.util.find_spec("fairseq") is not None:
        return
    python = _ROOT / ".venv" / "bin" / "python"
    if not python.exists() or Path(sys.prefix) == python.parents[1]:
        raise SystemExit(f"{sys.executable} has no fairseq; bash scripts/fairseq-ext --help creates {_ROOT / '.venv'}")
    os.execv(python, [str(python), *sys.argv])
