"""Records that steps leave for the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairseq_ext.inputs.json_file import read_json


def read_record(path: Path) -> dict[str, Any] | None:
    """Read a record of results; None if it is not there.

    Raises:
        InputError: if it is no JSON object.
    """
    if not path.is_file():
        return None
    return read_json(path, "make it again")
