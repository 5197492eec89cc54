"""Training systems with adapters on trees, inducing these trees, and choosing paths: as steps."""

from __future__ import annotations

from pathlib import Path

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.hierarchy.config import HierarchyExperiment
from fairseq_ext.experiments.hierarchy.systems import InducedTree
from fairseq_ext.induction.options import PathChoice
from fairseq_ext.recipes.language_models import DATA_DIR, UNSEEN_DATA_DIR, checkpoint_of, training_steps


def system_steps(experiment: HierarchyExperiment, name: str) -> list[Step]:
    """The steps that train a system, with or without adapters; see :func:`training_steps`.

    Raises:
        InputError: if a model that should be there already is not, or the tree's file is none.
    """
    tree = experiment.tree_of(name)
    if tree is None:
        return training_steps(experiment, name)
    # A tree drawn by hand says which domains there are; an induced one has all.
    domains = [] if tree.is_induced else tree.domains
    is_told = option_of(experiment.systems[name].system.options, "train-domains") is not None
    options = {"train-domains": ",".join(domains)} if domains and not is_told else {}
    return training_steps(experiment, name, options, {"tree": tree.path})


def tree_step(experiment: HierarchyExperiment, tree: InducedTree) -> Step:
    """The step that induces a tree."""
    checkpoint, data = _encoder(experiment, tree), experiment.work_dir / DATA_DIR

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.induction.induce_tree import write_tree

        write_tree(folder, checkpoint, data, tree.induction, cpu=experiment.evaluate.cpu)

    return Step(tree.path.parent, [checkpoint, data], tree.induction.recorded(), build, resumable=True)


def paths_step(experiment: HierarchyExperiment, tree: InducedTree) -> Step:
    """The step that chooses paths of an induced tree for the unseen domains."""
    evaluation, data = experiment.evaluate, experiment.work_dir / UNSEEN_DATA_DIR
    options = PathChoice(num_paths=max(evaluation.num_paths), sequences=evaluation.sequences, seed=experiment.seed)
    checkpoint = _encoder(experiment, tree)

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.induction.choose_paths import write_paths

        write_paths(folder, checkpoint, tree.path.parent, data, options, cpu=evaluation.cpu)

    inputs = [checkpoint, tree.path.parent, data]
    return Step(experiment.work_dir / "paths" / tree.name, inputs, options.recorded(), build)


def _encoder(experiment: HierarchyExperiment, tree: InducedTree) -> Path:
    """The checkpoint whose states a tree is made of."""
    return checkpoint_of(experiment, experiment.runs[tree.system][0])
