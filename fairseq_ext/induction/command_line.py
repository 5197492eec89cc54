"""Options of a command that are the fields of a dataclass."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any


def add_fields(parser: argparse.ArgumentParser, kind: type, help_texts: Mapping[str, str]) -> None:
    """Add an option for every field of a dataclass, with the field's default and type.

    Args:
        parser: to add them to.
        kind: a dataclass whose fields all have defaults.
        help_texts: by field.
    """
    default = kind()
    for field in dataclasses.fields(kind):
        value = getattr(default, field.name)
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=type(value), default=value, help=help_texts[field.name])


def read_fields(given: argparse.Namespace, kind: type) -> Any:
    """The dataclass that the options of :func:`add_fields` stand for."""
    return kind(**{field.name: getattr(given, field.name) for field in dataclasses.fields(kind)})
