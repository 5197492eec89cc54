"""From text by domain to adapters on trees and their report, as stages.

``trees/NAME`` has an induced tree and its clusters, ``paths/NAME`` the leaves that unseen domains choose by these.
"""

from __future__ import annotations

from functools import partial

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.engine.stages import Stage
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.domain_tree import read_tree
from fairseq_ext.recipes.hierarchy import induction as induction
from fairseq_ext.recipes.hierarchy.config import Hierarchy
from fairseq_ext.recipes.hierarchy.measurement import perplexity_steps
from fairseq_ext.recipes.hierarchy.report import report
from fairseq_ext.recipes.language_models import (
    DATA_DIR,
    UNSEEN_DATA_DIR,
    checkpoint_of,
    preparation_steps,
    training_step,
    training_steps,
)
from fairseq_ext.recipes.registry import Recipe


def stages_of(experiment: Hierarchy) -> list[Stage]:
    """The stages of an experiment, in order; every system is one, under its own name.

    Systems that need an induced tree come after the stage ``tree``, the others before it.
    """
    late = [name for name in experiment.systems if experiment.needs_induced_tree(name)]
    early = [name for name in experiment.systems if name not in late]
    return [
        Stage("prepare", partial(preparation_steps, experiment)),
        *(Stage(name, partial(system_steps, experiment, name), early=True) for name in early),
        Stage("tree", lambda: [tree_step(experiment, name) for name in experiment.induced_trees]),
        *(Stage(name, partial(system_steps, experiment, name), early=True) for name in late),
        Stage("paths", partial(path_steps, experiment)),
        Stage("evaluate", partial(perplexity_steps, experiment)),
        Stage("report", lambda: [report(experiment)]),
    ]


def system_steps(experiment: Hierarchy, name: str) -> list[Step]:
    """The steps that train a system, with or without adapters."""
    tree, options = experiment.systems[name].tree, experiment.systems[name].options
    if tree is None:
        return training_steps(experiment, name, partial(training_step, experiment))
    file, domains = experiment.tree_file(tree), {}
    # Induced trees have all domains.
    if tree not in experiment.induced_trees and option_of(options, "train-domains") is None:
        domains = {"train-domains": ",".join(sorted(read_tree(file).domains))}
    return training_steps(experiment, name, partial(training_step, experiment, options=domains, files={"tree": file}))


def tree_step(experiment: Hierarchy, name: str) -> Step:
    """The step that induces a tree."""
    output, data = experiment.tree_file(name).parent, experiment.work_dir / DATA_DIR
    checkpoint = checkpoint_of(experiment, experiment.encoder_of(name))
    return induction.tree_step(output, checkpoint, data, experiment.induction_of(name), cpu=experiment.evaluate.cpu)


def path_steps(experiment: Hierarchy) -> list[Step]:
    """The steps that choose paths of induced trees for the unseen domains; none without any."""
    names = experiment.induced_trees if experiment.corpora.unseen else []
    return [_paths_step(experiment, name) for name in names]


def _paths_step(experiment: Hierarchy, name: str) -> Step:
    evaluate, data = experiment.evaluate, experiment.work_dir / UNSEEN_DATA_DIR
    choice = induction.PathChoice(num_paths=max(evaluate.num_paths), sequences=evaluate.sequences, seed=experiment.seed)
    output, tree = experiment.paths_dir(name), experiment.tree_file(name).parent
    checkpoint = checkpoint_of(experiment, experiment.encoder_of(name))
    return induction.paths_step(output, checkpoint, tree, data, choice, cpu=evaluate.cpu)


RECIPE = Recipe(Hierarchy, preparation_steps, stages_of)
