"""Files of small experiments."""

from pathlib import Path
from typing import Any

import yaml


def write_experiment(path: Path, settings: dict[str, Any], changes: dict[str, Any]) -> Path:
    """Write an experiment file whose sections are ``settings`` but for ``changes``, and return its path."""
    path.write_text(yaml.safe_dump({**settings, **changes}, sort_keys=False), encoding="utf-8")
    return path
