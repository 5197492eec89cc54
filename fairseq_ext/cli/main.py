"""The program ``fairseq-ext``: which verbs there are, by purpose."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from fairseq_ext.cli import experiments, serving, text
from fairseq_ext.cli.verbs import Verb
from fairseq_ext.inputs.errors import InputError, run_command, shown

PROGRAM = "fairseq-ext"
# By purpose, the verbs; a text is the former command line of one, until that has moved here.
PURPOSES: Mapping[str, Mapping[str, Verb | tuple[str, str]]] = {
    "Experiments: from corpora to a report": experiments.VERBS,
    "Translating with a trained system": {
        **serving.VERBS,
        "serve": ("serve an exported system over HTTP", "serving.command_line:main"),
    },
    "Models and adapters": {
        "adapters": ("move adapters between models; add, remove and rename domains", "adapters.command_line:main"),
        "tasks": ("list, save, load and remove the tasks of a classifier", "classifiers.task_adapters:main"),
        "classify": ("label lines of text by a task", "classifiers.classify:main"),
        "check": ("look through checkpoints before use", "patches.check_checkpoint:main"),
        "import checkpoint": ("import checkpoints of others", "interchange.import_command:main"),
        "import gpt2": ("import a GPT-2 of Hugging Face's", "hugging_face.gpt2_convert:main"),
        "import roberta": ("import a RoBERTa, XLM-R or BERT of Hugging Face's", "hugging_face.roberta_convert:main"),
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
        **text.VERBS,
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
    if name == "import" and rest:
        name, *rest = f"{name} {rest[0]}", *rest[1:]
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
