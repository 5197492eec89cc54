"""What the architecture presets share."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any


def own_size(args: Namespace, size: Mapping[str, Any]) -> None:
    """Set what neither the command line nor another preset has set; fairseq does the rest."""
    for name, value in size.items():
        setattr(args, name, getattr(args, name, value))
