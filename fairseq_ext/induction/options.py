"""How trees are induced and paths are chosen: the options of experiment files and command lines."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from fairseq_ext.inputs.models import LARGEST, Count, Number, Section, Seed

TREE_FILE, RECORD_FILE = "tree.json", "clusters.json"  # of an induced tree
PATHS_FILE, VOTES_FILE = "paths.json", "votes.json"
_INDUCTION_VERSION, _CHOICE_VERSION = 1, 2

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

    def recorded(self) -> dict[str, Any]:
        """The options of a step that induces a tree."""
        return {"version": _INDUCTION_VERSION, **self.model_dump()}


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

    def recorded(self) -> dict[str, Any]:
        """The options of a step that chooses paths."""
        return {"version": _CHOICE_VERSION, **self.model_dump()}
