"""Options of fairseq's commands as dataclass fields."""

from dataclasses import field
from typing import Any


def option(default: Any, words: str) -> Any:
    """Return a dataclass field with a default and a help text."""
    return field(default=default, metadata={"help": words})


def names_in(text: str) -> list[str]:
    """Return the names in an option that lists them with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
