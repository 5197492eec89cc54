"""Verbs for language models: domain trees."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fairseq_ext.cli.verbs import Verb

if TYPE_CHECKING:
    from fairseq_ext.base.sections import Section

    _Section = TypeVar("_Section", bound=Section)


def _add_fields(parser: ArgumentParser, model: type[Section]) -> None:
    """Add an option for each field of a section, with the field's default, type and description."""
    for name, field in model.model_fields.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(field.default), default=field.default, help=field.description)


def _read_fields(options: Namespace, model: type[_Section]) -> _Section:
    """Make a section from the options of :func:`_add_fields`; raises InputError if a value is out of range."""
    from fairseq_ext.base.sections import read_model

    return read_model(model, {name: getattr(options, name) for name in model.model_fields}, "options", {})


def _induce_options(parser: ArgumentParser) -> None:
    from fairseq_ext.experiments.hierarchy.config import Induction

    add = parser.add_argument
    add("checkpoint", type=Path, help="fairseq checkpoint of a language model (transformer_lm)")
    add("data", type=Path, help="data directory with domains.txt, dict.txt, DOMAIN/train.{bin,idx}")
    add("output", type=Path, help="directory to write; skipped if up to date")
    _add_fields(parser, Induction)
    add("--cpu", action="store_true", help="run on the CPU even if there is a GPU")


def _induce(options: Namespace) -> None:
    """Induce a domain tree from text: a language model encodes sequences of each domain, a Gaussian mixture clusters
    them, and the nearest clusters are merged into a binary tree. Writes tree.json, clusters.npz (for fairseq-ext
    paths), clusters.json and a figure.
    """
    from fairseq_ext.base.steps import run_steps
    from fairseq_ext.experiments.hierarchy.config import Induction
    from fairseq_ext.experiments.hierarchy.induce_tree import describe_tree
    from fairseq_ext.experiments.hierarchy.stages import tree_step

    chosen = _read_fields(options, Induction)
    run_steps([tree_step(options.output, options.checkpoint, options.data, chosen, cpu=options.cpu)])
    print(describe_tree(options.output))


def _paths_options(parser: ArgumentParser) -> None:
    from fairseq_ext.experiments.hierarchy.config import PathChoice

    add = parser.add_argument
    add("checkpoint", type=Path, help="language model that the tree was induced with, or an adapted one")
    add("tree", type=Path, help="output directory of fairseq-ext induce")
    add("data", type=Path, help="data directory with domains.txt, dict.txt, DOMAIN/SPLIT.{bin,idx}")
    add("output", type=Path, help="directory to write; skipped if up to date")
    _add_fields(parser, PathChoice)
    add("--cpu", action="store_true", help="run on the CPU even if there is a GPU")


def _paths(options: Namespace) -> None:
    """Choose paths of an induced tree for the domains of a data directory. Sequences of each domain vote for leaves,
    and the paths to the chosen leaves are averaged. Prints the paths and writes paths.json (for --paths) and
    votes.json.
    """
    from fairseq_ext.base.steps import run_steps
    from fairseq_ext.experiments.hierarchy.config import PathChoice
    from fairseq_ext.experiments.hierarchy.induce_tree import describe_paths
    from fairseq_ext.experiments.hierarchy.stages import paths_step

    chosen = _read_fields(options, PathChoice)
    run_steps([paths_step(options.output, options.checkpoint, options.tree, options.data, chosen, cpu=options.cpu)])
    print(describe_paths(options.output, options.tree))


VERBS = {
    "induce": Verb("induce a domain tree from text", [_induce_options], _induce),
    "paths": Verb("choose paths of an induced tree for domains", [_paths_options], _paths),
}
