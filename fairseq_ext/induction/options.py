"""How trees are induced and paths are chosen: what experiment files and command lines say of it, without libraries."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from fairseq_ext.inputs.errors import InputError

TREE_FILE, PATHS_FILE = "tree.json", "paths.json"  # what either leaves
_INDUCTION_VERSION, _CHOICE_VERSION = 1, 2


@dataclass(frozen=True)
class Induction:
    """How a tree is induced.

    Args:
        sequences: blocks of text a domain.
        tokens: length of a block; 0 for that of the language model's training.
        split: the set they are drawn from.
        dimensions: principal components.
        components: Gaussians of the mixture; 0 for one a domain.
        covariance_floor: see :func:`~fairseq_ext.domains.gaussian_clusters.fit_clusters`.
        seed: draws blocks, and where the mixture starts.
    """

    sequences: int = 1000
    tokens: int = 0
    split: str = "train"
    dimensions: int = 100
    components: int = 0
    covariance_floor: float = 1e-2
    seed: int = 1

    def check(self) -> None:
        """Check the numbers.

        Raises:
            InputError: naming the option that cannot be.
        """
        for name, least in {"sequences": 1, "dimensions": 1, "components": 0}.items():
            if getattr(self, name) < least:
                raise InputError(f"--{name} {getattr(self, name)}: must be {least} at least")
        if not 0 <= self.covariance_floor < math.inf:
            raise InputError(f"--covariance-floor {self.covariance_floor}: must be 0 at least, say 0.001")

    def recorded(self) -> dict[str, Any]:
        """The options of a step that induces a tree."""
        return {"version": _INDUCTION_VERSION, **dataclasses.asdict(self)}


@dataclass(frozen=True)
class PathChoice:
    """How paths are chosen.

    Args:
        num_paths: leaves a domain, at most.
        sequences: that vote, at most, a domain.
        choose_tokens: each sequence's first tokens that count; 0 for all.
        split: the set they are drawn from.
        seed: draws them.
    """

    num_paths: int = 2
    sequences: int = 1000
    choose_tokens: int = 0
    split: str = "train"
    seed: int = 1

    def check(self) -> None:
        """Check the numbers.

        Raises:
            InputError: naming the option that cannot be.
        """
        for name, least in {"num_paths": 1, "sequences": 1, "choose_tokens": 0}.items():
            if getattr(self, name) < least:
                raise InputError(f"--{name.replace('_', '-')} {getattr(self, name)}: must be {least} at least")

    def recorded(self) -> dict[str, Any]:
        """The options of a step that chooses paths."""
        return {"version": _CHOICE_VERSION, **dataclasses.asdict(self)}
