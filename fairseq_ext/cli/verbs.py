"""What a verb is, and how its command line is read."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, Namespace, _ArgumentGroup
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from fairseq_ext.inputs.errors import InputError

if TYPE_CHECKING:
    from fairseq_ext.engine.tasks import Engine

CONFIG = "experiment file (YAML), see configs/"


@dataclass(frozen=True)
class Verb:
    """A command of ``fairseq-ext``; what it runs imports what it needs, so that ``--help`` is quick."""

    help: str  # what it does, in one line
    add_options: Callable[[ArgumentParser], None] = lambda _: None  # gives its parser a description and options
    run: Callable[[Namespace], None] | None = None
    passes_on: bool = False  # options that are not its own go to fairseq, as ``options.extra``
    verbs: Mapping[str, Verb] = field(default_factory=dict)  # the commands below it; then it has no ``run``

    def __call__(self, prog: str, arguments: Sequence[str]) -> None:
        """Read a command line, and do what it says; ``prog`` is the command's name in its help."""
        parser = self.parser(prog)
        options, extra = parser.parse_known_args(arguments)
        if extra and not options.verb.passes_on:
            parser.error(f"unrecognized arguments: {' '.join(extra)}")
        options.extra = extra
        options.verb.run(options)

    def parser(self, prog: str) -> ArgumentParser:
        """What reads its command line."""
        parser = _Parser(prog=prog, allow_abbrev=False)
        self._set_up(parser)
        return parser

    def _set_up(self, parser: ArgumentParser) -> None:
        parser.formatter_class = _Formatter
        parser.description = f"{self.help[0].upper()}{self.help[1:]}."
        parser.set_defaults(verb=self)
        self.add_options(parser)
        if self.verbs:
            below = parser.add_subparsers(required=True, metavar="VERB")
            for name, verb in self.verbs.items():
                verb._set_up(below.add_parser(name, help=verb.help, allow_abbrev=False))


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """End with one line, as all bad input does."""
        raise InputError(f"{message.removeprefix('argument ')}; {self.prog} --help explains what it takes")


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Says the default of every option that has one and does not say it itself."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, False, []) or "(default" in (action.help or ""):
            return action.help
        return super()._get_help_string(action)


def number(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of options that take a whole number from ``least`` to ``most``."""

    def read(text: str) -> int:
        value = int(text)
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{value}: give {least} {'or more' if most is None else f'to {most}'}")
        return value

    read.__name__ = "whole number"  # as argparse names it
    return read


def add_config(parser: ArgumentParser) -> None:
    """The experiment file, as ``config``."""
    parser.add_argument("config", type=Path, help=CONFIG)


def add_dry_run(parser: ArgumentParser | _ArgumentGroup) -> None:
    """``--dry-run`` of :func:`~fairseq_ext.engine.steps.run_steps`."""
    parser.add_argument("--dry-run", action="store_true", help="only print which steps would run")


def add_jobs(parser: ArgumentParser) -> None:
    """Where steps run: ``--jobs`` and ``--scheduler`` of :func:`~fairseq_ext.engine.steps.run_steps`."""
    parser.add_argument(
        "--jobs",
        type=number(1),
        default=1,
        metavar="N",
        help="steps at once, which share the cores or the GPU: trials, seeds, systems that do not start from each "
        "other; each takes memory",
    )
    _add_scheduler(parser)


def add_engine(parser: ArgumentParser) -> None:
    """Where tasks run, for :func:`engine_of`."""
    parser.add_argument("--workers", type=number(0), default=0, metavar="N", help="processes; 0 takes one a core")
    _add_scheduler(parser)


def _add_scheduler(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="run on a Dask cluster instead: its scheduler's address or scheduler file (see docs/cluster.md)",
    )


def engine_of(options: Namespace) -> Engine:
    """Where tasks run, as the options of :func:`add_engine` say."""
    from fairseq_ext.engine.tasks import Engine

    return Engine(options.workers, options.scheduler)
