"""A script that was started by a Python without this project's libraries goes on with the one in ``.venv``.

Read by any Python 3; it imports nothing of this package.
"""

import importlib.util
import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def use_own_python() -> None:
    """Start the program again with the project's Python, unless this one has fairseq.

    Raises:
        SystemExit: if there is no such Python yet.
    """
    if importlib.util.find_spec("fairseq") is not None:
        return
    python = _ROOT / ".venv" / "bin" / "python"
    if not python.exists() or Path(sys.prefix) == python.parents[1]:
        raise SystemExit(f"{sys.executable} has no fairseq; bash scripts/fairseq-ext --help creates {_ROOT / '.venv'}")
    os.execv(python, [str(python), *sys.argv])
