"""Options of a command that are the fields of a section."""

from __future__ import annotations

import argparse
from typing import TypeVar

from fairseq_ext.inputs.models import Section, read_model

_Section = TypeVar("_Section", bound=Section)


def add_fields(parser: argparse.ArgumentParser, model: type[Section]) -> None:
    """Add an option for every field of a section, with the field's default, type and description.

    Args:
        parser: the parser of the command.
        model: a section whose fields all have defaults.
    """
    for name, field in model.model_fields.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(field.default), default=field.default, help=field.description)


def read_fields(given: argparse.Namespace, model: type[_Section]) -> _Section:
    """The section that the options of :func:`add_fields` stand for.

    Raises:
        InputError: naming an option that is out of range.
    """
    return read_model(model, {name: getattr(given, name) for name in model.model_fields}, "options", {})
