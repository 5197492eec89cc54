"""The verbs of ``tools/benchmark.py``: modules of the parent package."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import benchmarks


def verb_names() -> list[str]:
    """Return all verbs, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.ispkg)


def verb_module(name: str) -> ModuleType:
    """Import the module of a verb.

    It has ``add_options(parser)``, ``UNIT`` (of the rates, such as ``words/s``) and ``cases(options)``; or, if nothing
    alternates, ``measure(options)`` in place of the last two, which returns values for the JSON file. Other defaults of
    ``rounds`` or ``threads`` are set with ``parser.set_defaults``, environment variables with ``ENVIRONMENT``.
    """
    return importlib.import_module(f"benchmarks.{name}")


def build_parser() -> argparse.ArgumentParser:
    """Return the argument parser; common options are the same for every verb."""
    parser = argparse.ArgumentParser(prog="tools/benchmark.py", description="Measure speed and memory.")
    commands = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name in verb_names():
        module = verb_module(name)
        assert module.__doc__ is not None
        command = commands.add_parser(
            name, help=module.__doc__.partition("\n")[0], description=module.__doc__, formatter_class=_Formatter
        )
        if hasattr(module, "cases"):
            add_common_options(command)
        command.add_argument("--json", type=Path, metavar="FILE", help="file for the measurements")
        module.add_options(command)
    return parser


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every verb with cases."""
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="measured rounds; one more is a warm-up")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of torch and BLAS")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout to measure in turn with this one")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="TEXT", help="run only cases whose name contains one of these"
    )
    parser.add_argument("--list", action="store_true", help="list the cases without measuring")


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options of a verb, which is the first word."""
    return build_parser().parse_args(words)


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Formatter that keeps the description's layout and shows defaults."""
