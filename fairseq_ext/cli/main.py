"""The program ``fairseq-ext``: which verbs there are, by purpose."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from fairseq_ext.cli.verbs import Verb
from fairseq_ext.inputs.errors import InputError, run_command, shown

PROGRAM = "fairseq-ext"
# By purpose, the verbs; a text is the former command line of one, until that has moved here.
PURPOSES: Mapping[str, Mapping[str, Verb | tuple[str, str]]] = {
    "Experiments: from corpora to a report": {
        "init": ("write an experiment file for a folder of corpora", "recipes.translation.init:main"),
        "run": ("run a whole experiment, or some of its stages", "recipes.run:main"),
        "prepare": ("prepare an experiment's data", "recipes.prepare:main"),
        "teacher": ("train an experiment's domain classifier", "recipes.translation.commands:train_teacher"),
        "train": ("train a system of an experiment", "recipes.translation.commands:train"),
        "score": ("score an experiment's translations", "recipes.translation.commands:score"),
        "analyse": ("analyse a trained experiment", "recipes.translation.commands:analyse"),
        "examples": ("translate an experiment's example lines", "recipes.translation.commands:examples"),
        "report": ("write an experiment's report", "recipes.translation.commands:report"),
        "reports": ("list all reports below a folder on one page", "report.overview:main"),
    },
    "Translating with a trained system": {
        "translate": ("translate a text, or an experiment's test sets", "recipes.translation.commands:translate"),
        "export": ("export a trained system as one folder", "recipes.translation.commands:export"),
        "serve": ("serve an exported system over HTTP", "serving.command_line:main"),
    },
    "Models and adapters": {
        "adapters": ("move adapters between models; add, remove and rename domains", "adapters.command_line:main"),
        "tasks": ("list, save, load and remove the tasks of a classifier", "classifiers.task_adapters:main"),
        "classify": ("label lines of text by a task", "classifiers.classify:main"),
        "check": ("look through checkpoints before use", "patches.check_checkpoint:main"),
        "export-domain": ("write one domain's adapters as a plain Transformer", "interchange.export_command:main"),
    },
    "Language models": {
        "induce": ("induce a domain tree from text", "induction.induce_tree:main"),
        "paths": ("choose paths of an induced tree for further domains", "induction.choose_paths:main"),
        "ngrams": ("train an n-gram language model", "reranking.kneser_ney:main"),
        "rerank": ("re-rank n-best lists with language models", "reranking.command_line:main"),
    },
    "Text": {
        "corpora": ("make parallel text from corpora of any form", "corpora.import_corpora:main"),
        "split-domains": ("cut the domains of a folder into more", "induction.split_domains:main"),
        "label": ("label text with a trained domain classifier", "teacher.label:main"),
        "normalise": ("normalise text as an experiment's was", "recipes.translation.commands:normalise"),
    },
}
VERBS = {name: verb for verbs in PURPOSES.values() for name, verb in verbs.items()}


def main() -> None:
    """The entry point; see :func:`~fairseq_ext.inputs.errors.run_command` for how it ends."""
    # Programs that a command starts import nothing from the current directory either.
    os.environ["PYTHONSAFEPATH"] = "1"
    run_command(lambda: run_verb(sys.argv[1:]))


def run_verb(arguments: Sequence[str]) -> None:
    """Do what a command line says.

    Raises:
        InputError: naming what cannot be used.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return
    name, *rest = arguments
    if name not in VERBS:
        near = get_close_matches(name, VERBS)
        hint = f"did you mean {near[0]}?" if near else f"{PROGRAM} --help lists what there is"
        raise InputError(f"no verb {shown(name)}; {hint}")
    verb = VERBS[name]
    if isinstance(verb, Verb):
        verb(f"{PROGRAM} {name}", rest)
    else:
        module, _, function = verb[1].partition(":")
        sys.argv[:] = [f"{PROGRAM} {name}", *rest]
        getattr(importlib.import_module(f"fairseq_ext.{module}"), function)(rest)


def overview() -> str:
    """All verbs, by purpose."""
    width = max(map(len, VERBS)) + 2
    lines = [f"usage: {PROGRAM} VERB …", "", f"{PROGRAM} VERB --help explains a verb.", ""]
    for purpose, verbs in PURPOSES.items():
        lines += [purpose]
        lines += [
            f"  {name:<{width}}{verb.help if isinstance(verb, Verb) else verb[0]}" for name, verb in verbs.items()
        ]
        lines += [""]
    return "\n".join(lines[:-1])
