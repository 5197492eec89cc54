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
    """

    model: Any
    chooser: PathChooser
    num_paths: int
    num_tokens: int
    padding_idx: int

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
        with torch.no_grad():
            states = base_states(self.model, tokens, self.padding_idx).cpu().numpy()
        leaves = self.chooser.leaves(states, self.num_paths)
        weights = np.stack([self.model.tree.path_weights(names) for names in leaves])
        return torch.from_numpy(weights).to(tokens.device)
