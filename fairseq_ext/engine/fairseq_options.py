"""Commands of fairseq's that steps will run: their options are read by fairseq's parsers before the first step."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fairseq_ext.engine.children import how_it_ended, run_child
from fairseq_ext.engine.fairseq_cli import own_environment
from fairseq_ext.inputs.errors import InputError

_READER = "import fairseq_ext.registration; from fairseq_ext.engine.option_reader import main; main()"
# A program, and what it is told in two parts: by files, and by the command line.
Spelled = tuple[str, tuple[tuple[str, ...], ...]]


@dataclass(frozen=True)
class FairseqCommand:
    """A command that a step will run.

    Attributes:
        program: ``train`` or ``generate``.
        arguments: its options that are known already, without the data directory.
        place: where an option is given, for messages: file and keys.
        extra: more options, from this program's own command line.
    """

    program: str
    arguments: tuple[str, ...]
    place: Callable[[str], str] = field(compare=False)
    extra: tuple[str, ...] = ()

    @property
    def parts(self) -> Spelled:
        """What fairseq gets to see: the program, and what it is told, less the data directory."""
        return self.program, (self.arguments, self.extra)


def check_commands(commands: Sequence[FairseqCommand]) -> None:
    """Check that fairseq takes the options of commands; nothing is started if there are none.

    Raises:
        InputError: naming where the first option is that it does not take, what is wrong with it and what is near it.
    """
    different: dict[Spelled, FairseqCommand] = {}
    for command in commands:
        different.setdefault(command.parts, command)
    found = first_mistake_in(list(different)) if different else None
    if found is not None:
        number, part, flag, text = found
        command = list(different.values())[number]
        typed = f"command line: {flag}" if flag else "command line"
        raise InputError(f"{typed if part else command.place(flag.lstrip('-'))}: {text}")


def first_mistake_in(commands: Sequence[Spelled]) -> Sequence | None:
    """Ask fairseq's parsers, in one process for all commands.

    Returns:
        What :func:`fairseq_ext.engine.option_reader.first_mistake` does.

    Raises:
        InputError: if that process fails.
    """
    command, typed = [sys.executable, "-P", "-c", _READER], json.dumps(commands)
    result = run_child(
        command, input=typed, capture_output=True, encoding="utf-8", errors="replace", env=own_environment()
    )
    if result.returncode != 0:
        sys.stderr.write(result.stderr)
        raise InputError(f"fairseq's parser of options {how_it_ended(result.returncode)}")
    return json.loads(result.stdout)
