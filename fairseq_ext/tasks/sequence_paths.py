"""Choice of paths through an induced tree for each sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.path_chooser import PathChooser
from fairseq_ext.models.states import base_states, prefix_states


@dataclass(frozen=True)
class StatesOnce:
    """Cache of the base model's states, so that several choices of paths read each text only once.

    Attributes:
        lengths: numbers of first tokens used for choices; 0 for all.
        kept: the states by text.
    """

    lengths: tuple[int, ...]
    kept: dict[Any, dict[int, np.ndarray]] = field(default_factory=dict, repr=False)

    def of(self, model: Any, tokens: Tensor, pad: int, num_tokens: int) -> np.ndarray:
        """Return the states averaged over the first ``num_tokens`` tokens, one of ``lengths``: B×T → B×H."""
        key = tuple(tokens.shape), tokens.cpu().numpy().tobytes()
        if key not in self.kept:
            with torch.no_grad():
                found = prefix_states(model, tokens, pad, self.lengths)
            self.kept[key] = {length: states.cpu().numpy() for length, states in found.items()}
        return self.kept[key][num_tokens]


@dataclass(frozen=True)
class SequencePaths:
    """Routing weights of each sequence, from the paths of its most probable leaves.

    Args:
        model: the model with the tree; its base reads the sequences.
        num_paths: k, number of leaves per sequence.
        num_tokens: number of first tokens used for the choice; 0 for all.
        states: cache of base states, shared with choices of other numbers of paths or tokens for the same text; None
            for no cache.
    """

    model: Any
    chooser: PathChooser
    num_paths: int
    num_tokens: int
    padding_idx: int
    states: StatesOnce | None = None

    @classmethod
    def load(cls, directory: Path, model: Any, **kwargs: Any) -> SequencePaths:
        """Load the clusters from a directory of ``fairseq-ext induce``."""
        paths = cls(model, PathChooser.load(directory), **kwargs)
        paths.chooser.check_number(paths.num_paths)
        for name in paths.chooser.names:
            if name not in model.tree.leaves:
                raise InputError(
                    f"{directory}: leaf {name!r} is not in the model's tree, which has {', '.join(model.tree.leaves)}; "
                    "give the directory of clusters that this tree was induced from"
                )
        return paths

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return the routing weights of sequences: B×T → B×N."""
        leaves = self.chooser.leaves(self._states(tokens), self.num_paths)
        weights = np.stack([self.model.tree.path_weights(names) for names in leaves])
        return torch.from_numpy(weights).to(tokens.device)

    def _states(self, tokens: Tensor) -> np.ndarray:
        """Return the base model's averaged states: B×T → B×H."""
        if self.states is not None:
            return self.states.of(self.model, tokens, self.padding_idx, self.num_tokens)
        with torch.no_grad():
            states = base_states(self.model, tokens[:, : self.num_tokens or None], self.padding_idx)
        found: np.ndarray = states.cpu().numpy()
        return found
