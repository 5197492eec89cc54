"""An option of fairseq's commands, as a field of a dataclass."""

from dataclasses import field
from typing import Any


def option(default: Any, words: str) -> Any:
    """A field with a default, and with words for --help."""
    return field(default=default, metadata={"help": words})
