"""Stages of the hierarchy recipe: from text by domain to adapters on trees and their report.

``trees/NAME`` contains an induced tree and its clusters; ``paths/NAME`` contains the leaves that these clusters choose
for unseen domains.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fairseq_ext.base.domain_tree import read_tree
from fairseq_ext.base.fairseq_cli import option_of
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.hierarchy.config import Hierarchy, Induction, PathChoice
from fairseq_ext.experiments.hierarchy.measurement import perplexity_steps
from fairseq_ext.experiments.hierarchy.report import report
from fairseq_ext.experiments.language_models import (
    DATA_DIR,
    UNSEEN_DATA_DIR,
    preparation_steps,
    training_step,
    training_steps,
)
from fairseq_ext.experiments.registry import Recipe

_INDUCTION_VERSION, _CHOICE_VERSION = 1, 2


def stages_of(experiment: Hierarchy) -> list[Stage]:
    """Return the stages of an experiment, in order. Each system is a stage with the system's name.

    Systems that need an induced tree come after the stage ``tree``, all other systems before it.
    """
    late = [name for name in experiment.systems if experiment.needs_induced_tree(name)]
    early = [name for name in experiment.systems if name not in late]
    return [
        Stage("prepare", partial(preparation_steps, experiment)),
        *(Stage(name, partial(_system_steps, experiment, name), early=True) for name in early),
        Stage("tree", partial(_tree_steps, experiment)),
        *(Stage(name, partial(_system_steps, experiment, name), early=True) for name in late),
        Stage("paths", partial(_path_steps, experiment)),
        Stage("evaluate", partial(perplexity_steps, experiment)),
        Stage("report", lambda: [report(experiment)]),
    ]


def _system_steps(experiment: Hierarchy, name: str) -> list[Step]:
    """Return the steps that train a system, with or without adapters."""
    tree, options = experiment.systems[name].tree, experiment.systems[name].options
    if tree is None:
        return training_steps(experiment, name, partial(training_step, experiment))
    file, domains = experiment.tree_file(tree), {}
    # Induced trees contain all domains, so training uses all of them by default.
    if tree not in experiment.induced_trees and option_of(options, "train-domains") is None:
        domains = {"train-domains": ",".join(sorted(read_tree(file).domains))}
    return training_steps(experiment, name, partial(training_step, experiment, options=domains, files={"tree": file}))


# Induced trees


def _tree_steps(experiment: Hierarchy) -> list[Step]:
    data, cpu = experiment.work_dir / DATA_DIR, experiment.evaluate.cpu
    return [
        tree_step(experiment.tree_dir(name), experiment.encoder_of(name), data, experiment.induction_of(name), cpu=cpu)
        for name in experiment.induced_trees
    ]


def _path_steps(experiment: Hierarchy) -> list[Step]:
    """Return the steps that choose paths of induced trees for the unseen domains."""
    evaluate, data = experiment.evaluate, experiment.work_dir / UNSEEN_DATA_DIR
    choice = PathChoice(num_paths=max(evaluate.num_paths), sequences=evaluate.sequences, seed=experiment.seed)
    steps = []
    for name in experiment.induced_trees if experiment.corpora.unseen else ():
        tree, checkpoint = experiment.tree_dir(name), experiment.encoder_of(name)
        steps.append(paths_step(experiment.paths_dir(name), checkpoint, tree, data, choice, cpu=evaluate.cpu))
    return steps


def tree_step(output: Path, checkpoint: Path, data: Path, options: Induction, *, cpu: bool = False) -> Step:
    """Return the step that induces a tree from a language model's states of the domains in a data directory."""

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.experiments.hierarchy.induce_tree import write_tree

        write_tree(folder, checkpoint, data, options, cpu=cpu)

    recorded = {"version": _INDUCTION_VERSION, **options.model_dump()}
    return Step(output, [checkpoint, data], recorded, build)


def paths_step(
    output: Path, checkpoint: Path, tree: Path, data: Path, options: PathChoice, *, cpu: bool = False
) -> Step:
    """Return the step that chooses paths of an induced tree for the domains of a data directory.

    The checkpoint is the language model that the tree was induced with, or a model adapted from it.
    """

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.experiments.hierarchy.induce_tree import write_paths

        write_paths(folder, checkpoint, tree, data, options, cpu=cpu)

    recorded = {"version": _CHOICE_VERSION, **options.model_dump()}
    return Step(output, [checkpoint, tree, data], recorded, build)


RECIPE = Recipe(Hierarchy, preparation_steps, stages_of)
