"""The program ``fairseq-ext`` and its verbs, by purpose."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from fairseq_ext import __version__
from fairseq_ext.base.errors import InputError, run_command, shown
from fairseq_ext.cli import adapters, experiments, models, serving, text
from fairseq_ext.cli.verbs import Verb

PROGRAM = "fairseq-ext"
PURPOSES: Mapping[str, Mapping[str, Verb]] = {
    "Experiments: from corpora to a report": experiments.VERBS,
    "Translating with a trained system": serving.VERBS,
    "Models and adapters": adapters.VERBS | models.VERBS,
    "Language models": models.TREES,
    "Text": text.VERBS,
}
VERBS = {name: verb for verbs in PURPOSES.values() for name, verb in verbs.items()}


def main() -> None:
    """Run the command line; for exit codes, see :func:`~fairseq_ext.base.errors.run_command`."""
    # Child processes must not import from the current directory either.
    os.environ["PYTHONSAFEPATH"] = "1"
    run_command(lambda: run_verb(sys.argv[1:]))


def run_verb(arguments: Sequence[str]) -> None:
    """Run the verb of a command line, or print an overview."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return
    if arguments[0] == "--version":
        print(f"{PROGRAM} {__version__}")
        return
    name, *rest = arguments
    if name not in VERBS:
        near = get_close_matches(name, VERBS)
        hint = f"did you mean {near[0]}?" if near else f"{PROGRAM} --help lists all verbs"
        raise InputError(f"unknown verb {shown(name)}; {hint}")
    VERBS[name](f"{PROGRAM} {name}", rest)


def overview() -> str:
    """Return an overview of all verbs, by purpose."""
    width = max(map(len, VERBS)) + 2
    lines = [
        f"usage: {PROGRAM} VERB …",
        "",
        f"{PROGRAM} VERB --help explains a verb, --version prints the version.",
        "",
    ]
    for purpose, verbs in PURPOSES.items():
        lines += [purpose]
        lines += [f"  {name:<{width}}{verb.help}" for name, verb in verbs.items()]
        lines += [""]
    return "\n".join(lines[:-1])
