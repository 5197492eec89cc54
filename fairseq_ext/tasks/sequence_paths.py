"""Sequences that choose their own paths through an induced tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_ext.domains.path_chooser import PathChooser
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.states import base_states


@dataclass(frozen=True)
class SequencePaths:
    """Routing weights of each sequence: the paths from the leaves that are most probable for it alone.

    Args:
        model: whose base reads the sequences, and whose tree has the leaves.
        chooser: the clusters behind the leaves.
        num_paths: k leaves a sequence.
        num_tokens: how many of its first tokens a sequence chooses by, 0 for all.
        padding_idx: what is no token.
        seen: what the base has read, by its tokens, shared by those that choose other numbers of paths for the same
            text; None to keep nothing.
    """

    model: Any
    chooser: PathChooser
    num_paths: int
    num_tokens: int
    padding_idx: int
    seen: dict[Any, np.ndarray] | None = None

    @classmethod
    def load(cls, directory: Path, model: Any, **kwargs: Any) -> SequencePaths:
        """Take the clusters from where ``scripts/induce_tree.py`` put them.

        Raises:
            InputError: if there are not k leaves, or the model's tree has others.
        """
        paths = cls(model, PathChooser.load(directory), **kwargs)
        paths.chooser.check_number(paths.num_paths)
        for name in paths.chooser.names:
            if name not in model.tree.leaves:
                raise InputError(
                    f"{directory}: has a leaf {name!r}, the model's tree has {', '.join(model.tree.leaves)}; "
                    "give the directory that this tree was induced in"
                )
        return paths

    def __call__(self, tokens: Tensor) -> Tensor:
        """
        Shape:
            tokens: B×T; result: B×N
        """
        if self.num_tokens:
            tokens = tokens[:, : self.num_tokens]
        leaves = self.chooser.leaves(self._states(tokens), self.num_paths)
        weights = np.stack([self.model.tree.path_weights(names) for names in leaves])
        return torch.from_numpy(weights).to(tokens.device)

    def _states(self, tokens: Tensor) -> np.ndarray:
        """B×H, the base's."""
        if self.seen is None:
            return self._read(tokens)
        key = tuple(tokens.shape), tokens.cpu().numpy().tobytes()
        if key not in self.seen:
            self.seen[key] = self._read(tokens)
        return self.seen[key]

    def _read(self, tokens: Tensor) -> np.ndarray:
        with torch.no_grad():
            states: np.ndarray = base_states(self.model, tokens, self.padding_idx).cpu().numpy()
        return states
