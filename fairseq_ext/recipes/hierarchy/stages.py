"""From text by domain to adapters on trees and their report, as stages.

``trees/NAME`` has an induced tree and its clusters, ``paths/NAME`` the leaves that unseen domains choose by these.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.engine.stages import Stage
from fairseq_ext.engine.steps import Step
from fairseq_ext.induction import steps as induction
from fairseq_ext.induction.steps import PathChoice
from fairseq_ext.recipes.hierarchy.config import Hierarchy
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

    Systems that need an induced tree come after the stage ``tree``, the others before it."""
    late = [name for name in experiment.systems if experiment.needs_induced_tree(name)]
    early = [name for name in experiment.systems if name not in late]
    return [
        Stage("prepare", partial(preparation_steps, experiment)),
        *(Stage(name, partial(system_steps, experiment, name), trains=True) for name in early),
        Stage("tree", lambda: [tree_step(experiment, name) for name in experiment.induced_trees]),
        *(Stage(name, partial(system_steps, experiment, name), trains=True) for name in late),
        Stage("paths", partial(_path_steps, experiment)),
        Stage("evaluate", partial(_evaluation, experiment)),
        Stage("report", partial(_report, experiment)),
    ]


# Measurement and report import these stages.


def _evaluation(experiment: Hierarchy) -> list[Step]:
    from fairseq_ext.recipes.hierarchy.measurement import perplexity_steps

    return perplexity_steps(experiment)


def _report(experiment: Hierarchy) -> list[Step]:
    from fairseq_ext.recipes.hierarchy.report import report

    return [report(experiment)]


def system_steps(experiment: Hierarchy, name: str) -> list[Step]:
    """The steps that train a system, with or without adapters."""
    tree, options = experiment.systems[name].tree, experiment.systems[name].options
    if tree is None:
        return training_steps(experiment, name, partial(training_step, experiment))
    # Induced trees have all domains.
    needs_domains = tree not in experiment.induced_trees and option_of(options, "train-domains") is None
    domains = {"train-domains": ",".join(experiment.domains_of(tree))} if needs_domains else {}
    files = {"tree": experiment.tree_file(tree)}
    return training_steps(experiment, name, partial(training_step, experiment, options=domains, files=files))


def tree_step(experiment: Hierarchy, name: str) -> Step:
    """The step that induces a tree."""
    output, data = experiment.tree_file(name).parent, experiment.work_dir / DATA_DIR
    how = experiment.induction_of(name)
    return induction.tree_step(output, encoder(experiment, name), data, how, cpu=experiment.evaluate.cpu)


def paths_step(experiment: Hierarchy, name: str) -> Step:
    """The step that chooses paths of an induced tree for the unseen domains."""
    evaluate, data = experiment.evaluate, experiment.work_dir / UNSEEN_DATA_DIR
    choice = PathChoice(num_paths=max(evaluate.num_paths), sequences=evaluate.sequences, seed=experiment.seed)
    output, tree = paths_dir(experiment, name), experiment.tree_file(name).parent
    return induction.paths_step(output, encoder(experiment, name), tree, data, choice, cpu=evaluate.cpu)


def paths_dir(experiment: Hierarchy, tree: str) -> Path:
    """Where the chosen paths of an induced tree are."""
    return experiment.work_dir / "paths" / tree


def encoder(experiment: Hierarchy, tree: str) -> Path:
    """The checkpoint whose states a tree is induced from."""
    return checkpoint_of(experiment, experiment.encoder_of(tree))


def _path_steps(experiment: Hierarchy) -> list[Step]:
    if not experiment.corpora.unseen:
        return []
    return [paths_step(experiment, name) for name in experiment.induced_trees]


RECIPE = Recipe(Hierarchy, preparation_steps, stages_of)
