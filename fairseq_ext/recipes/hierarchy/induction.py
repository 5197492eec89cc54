"""Steps that induce a tree and select its paths, with their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.models import LARGEST, Count, Number, Section, Seed

TREE_FILE, RECORD_FILE = "tree.json", "clusters.json"  # of an induced tree
DOMAINS_BY_CLUSTER = "domains-by-cluster.svg"
PATHS_FILE, VOTES_FILE = "paths.json", "votes.json"
_INDUCTION_VERSION, _CHOICE_VERSION = 1, 2

BY_VOTES, UNIFORM = "votes", "uniform"
PathWeights = Literal["votes", "uniform"]

CountOrZero = Annotated[int, Field(ge=0, lt=LARGEST)]


class Induction(Section):
    """How a tree is induced."""

    sequences: Count = 1000
    """Blocks of text per domain."""
    tokens: CountOrZero = 0
    """Length of a block; 0 for the length in the language model's training."""
    split: str = "train"
    """The set that blocks are drawn from."""
    dimensions: Count = 100
    """Principal components."""
    components: CountOrZero = 0
    """Gaussians of the mixture; 0 for one per domain."""
    covariance_floor: Annotated[Number, Field(ge=0)] = 1e-2
    """The least variance of a Gaussian in any direction, as a share of the mean variance."""
    seed: Seed = 1
    """Of the drawn blocks and the start of the mixture."""


class PathChoice(Section):
    """How paths are chosen."""

    num_paths: Count = 2
    """Leaves per domain, at most; a leaf without votes is not chosen."""
    sequences: Count = 1000
    """Blocks that vote per domain, at most."""
    choose_tokens: CountOrZero = 0
    """First tokens of each block that count; 0 for all."""
    split: str = "train"
    """The set that blocks are drawn from; evaluate on another one."""
    seed: Seed = 1
    """Of the drawn blocks."""


def tree_step(output: Path, checkpoint: Path, data: Path, options: Induction, *, cpu: bool = False) -> Step:
    """The step that induces a tree from the states of a language model on the domains of a data directory."""

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.recipes.hierarchy.induce_tree import write_tree

        write_tree(folder, checkpoint, data, options, cpu=cpu)

    recorded = {"version": _INDUCTION_VERSION, **options.model_dump()}
    return Step(output, [checkpoint, data], recorded, build)


def paths_step(
    output: Path, checkpoint: Path, tree: Path, data: Path, options: PathChoice, *, cpu: bool = False
) -> Step:
    """The step that chooses paths of an induced tree for the domains of a data directory.

    The checkpoint is the language model that the tree was induced with, or one that was adapted from it.
    """

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.recipes.hierarchy.induce_tree import write_paths

        write_paths(folder, checkpoint, tree, data, options, cpu=cpu)

    recorded = {"version": _CHOICE_VERSION, **options.model_dump()}
    return Step(output, [checkpoint, tree, data], recorded, build)
