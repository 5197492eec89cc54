"""The verbs of ``scripts/benchmark.py``: the modules beside this package."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import benchmarks


def verb_names() -> list[str]:
    """All verbs, in the order of the alphabet."""
    return sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.ispkg)


def verb_module(name: str) -> ModuleType:
    """The file of a verb.

    It has ``add_options(parser)``, ``UNIT`` (of the rates, as ``words/s``) and ``cases(options)``; or, where nothing
    takes turns, ``measure(options)`` in place of both, which returns what goes into the JSON. A default of ``rounds``
    or ``threads`` that differs is set by ``parser.set_defaults``, variables of the processes by ``ENVIRONMENT``.
    """
    return importlib.import_module(f"benchmarks.{name}")


def build_parser() -> argparse.ArgumentParser:
    """The command line; where options of a run are known to all, they are the same for every verb."""
    parser = argparse.ArgumentParser(prog="scripts/benchmark.py", description="Measure speed and memory.")
    commands = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name in verb_names():
        module = verb_module(name)
        assert module.__doc__ is not None
        command = commands.add_parser(
            name, help=module.__doc__.partition("\n")[0], description=module.__doc__, formatter_class=_Formatter
        )
        if hasattr(module, "cases"):
            add_common_options(command)
        command.add_argument("--json", type=Path, metavar="FILE", help="write what was measured there")
        module.add_options(command)
    return parser


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """What every verb with cases understands."""
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="that count; one more warms up")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of torch and BLAS")
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="another checkout, whose code does the same in turn with this one"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="cases whose name has one of these in it")
    parser.add_argument("--list", action="store_true", help="name the cases and measure nothing")


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of a verb, which is the first word."""
    return build_parser().parse_args(words)


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """The description as it stands, and defaults."""
