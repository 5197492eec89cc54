"""A whole experiment with hierarchical adapters, from text by domain to its report, as stages."""

from __future__ import annotations

from functools import partial

from fairseq_ext.engine.stages import Stage, check_stage_names
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.hierarchy.config import HierarchyExperiment, read_config
from fairseq_ext.experiments.hierarchy.evaluate import perplexity_step
from fairseq_ext.experiments.hierarchy.report import report_step
from fairseq_ext.experiments.hierarchy.train import paths_step, system_steps, tree_step
from fairseq_ext.experiments.kinds import Kind
from fairseq_ext.recipes.language_models import preparation_steps


def stages_of(experiment: HierarchyExperiment) -> list[Stage]:
    """The stages of an experiment, in order: every system is one, under its own name.

    Systems that need an induced tree come behind the stage ``tree``, those that it is induced from before it.

    Raises:
        InputError: if a system is named like another stage.
    """
    late = [name for name in experiment.systems if experiment.needs_induced_tree(name)]
    early = [name for name in experiment.systems if name not in late]
    stages = [
        Stage("prepare", partial(preparation_steps, experiment)),
        *(Stage(name, partial(system_steps, experiment, name), trains=True) for name in early),
        Stage("tree", lambda: [tree_step(experiment, tree) for tree in experiment.induced_trees]),
        *(Stage(name, partial(system_steps, experiment, name), trains=True) for name in late),
        Stage("paths", partial(_paths, experiment)),
        Stage("evaluate", lambda: [perplexity_step(experiment, run) for run in experiment.all_runs]),
        Stage("report", lambda: [report_step(experiment)]),
    ]
    return check_stage_names(stages, f"{experiment.path}: train: systems")


def _paths(experiment: HierarchyExperiment) -> list[Step]:
    if not experiment.corpora.unseen:
        return []
    return [paths_step(experiment, tree) for tree in experiment.induced_trees]


KIND = Kind(read_config, preparation_steps, stages_of)
