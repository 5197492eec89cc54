"""Verbs of the command line."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fairseq_ext.base.errors import InputError

if TYPE_CHECKING:
    from fairseq_ext.base.jobs import Engine

CONFIG = "experiment file (YAML), see configs/"
Option = Callable[[ArgumentParser], Any]  # adds one or more options to a parser


@dataclass(frozen=True)
class Verb:
    """A command of ``fairseq-ext``. Its functions import the modules they need, so that ``--help`` is fast."""

    help: str  # one-line description
    options: Sequence[Option] = ()
    run: Callable[[Namespace], None] | None = None  # its docstring, if any, is the description in its help text
    passes_on: bool = False  # unknown options are passed to fairseq, as ``options.extra``
    verbs: Mapping[str, Verb] = field(default_factory=dict)  # subcommands, instead of ``run``

    def __call__(self, prog: str, arguments: Sequence[str]) -> None:
        """Parse a command line and run it; ``prog`` is the name of the command in help texts."""
        parser = self.parser(prog)
        options, extra = parser.parse_known_args(arguments)
        if extra and not options.verb.passes_on:
            parser.error(f"unrecognized arguments: {' '.join(extra)}")
        options.extra = extra
        options.verb.run(options)

    def parser(self, prog: str) -> ArgumentParser:
        """Return the parser of its command line."""
        parser = _Parser(prog=prog, allow_abbrev=False)
        self._set_up(parser)
        return parser

    def _set_up(self, parser: ArgumentParser) -> None:
        parser.formatter_class = _Formatter
        text = self.run.__doc__ if self.run else None
        parser.description = " ".join(text.split()) if text else f"{self.help[0].upper()}{self.help[1:]}."
        parser.set_defaults(verb=self)
        for add in self.options:
            add(parser)
        if self.verbs:
            below = parser.add_subparsers(required=True, metavar="VERB")
            for name, verb in self.verbs.items():
                verb._set_up(below.add_parser(name, help=verb.help, allow_abbrev=False))


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise InputError, so that errors are one line, as for other bad input."""
        raise InputError(f"{message.removeprefix('argument ')}; see {self.prog} --help")


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help formatter that appends defaults, unless the help text contains them."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, False, []) or "(default" in (action.help or ""):
            return action.help
        return super()._get_help_string(action)


def number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return an option type for whole numbers from ``least`` to ``most``."""

    def read(text: str) -> int:
        value = int(text)
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{value}: give {least} {'or more' if most is None else f'to {most}'}")
        return value

    read.__name__ = "whole number"  # for argparse's error messages
    return read


def argument(*names: str, **settings: Any) -> Option:
    """Return an option with the arguments of :meth:`ArgumentParser.add_argument`."""
    return lambda parser: parser.add_argument(*names, **settings)


add_config = argument("config", type=Path, help=CONFIG)
# For :func:`~fairseq_ext.base.steps.run_steps`.
add_dry_run = argument("--dry-run", action="store_true", help="only print which steps would run")
_add_scheduler = argument(
    "--scheduler",
    metavar="ADDRESS",
    help="run on a Dask cluster: address or file of its scheduler (see docs/experiment.md)",
)


def add_jobs(parser: ArgumentParser) -> None:
    """Add ``--jobs`` and ``--scheduler`` for :func:`~fairseq_ext.base.steps.run_steps`."""
    parser.add_argument(
        "--jobs",
        type=number(1),
        default=1,
        metavar="N",
        help="steps to run in parallel (trials, seeds, independent systems); they share the cores or the GPU, and each "
        "takes memory",
    )
    _add_scheduler(parser)


def add_engine(parser: ArgumentParser) -> None:
    """Add ``--workers`` and ``--scheduler`` for :func:`engine_of`."""
    parser.add_argument("--workers", type=number(0), default=0, metavar="N", help="processes; 0: one per core")
    _add_scheduler(parser)


def engine_of(options: Namespace) -> Engine:
    """Return the engine for the options of :func:`add_engine`."""
    from fairseq_ext.base.jobs import Engine

    return Engine(options.workers, options.scheduler)
