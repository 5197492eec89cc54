"""Choose leaves of an induced tree for text: those with the most probable clusters.

Unseen domains need no training (hierarchical adapters §4.5): their sequences vote for leaves, and the paths from the
leaves with the most votes are averaged, weighted by votes or, as in the paper, equally. Leaves can also be chosen for
each sequence separately, which the paper leaves to future work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from fairseq_ext.base.array_file import read_arrays
from fairseq_ext.base.errors import InputError

CLUSTERS_FILE = "clusters.npz"
_ARRAYS = ("centre", "projection", "weights", "means", "covariances")


@dataclass(frozen=True, eq=False)
class GaussianClusters:
    """A Gaussian mixture, and the projection of states to its coordinates."""

    centre: np.ndarray  # H, subtracted from states before the projection
    projection: np.ndarray  # H×P
    weights: np.ndarray  # K, mixture weights of the clusters
    means: np.ndarray  # K×P
    covariances: np.ndarray  # K×P×P, positive definite

    def project(self, states: np.ndarray) -> np.ndarray:
        """Project states to the mixture's coordinates, which are ordered by decreasing variance.

        Shape:
            states: B×H; result: B×P
        """
        if states.shape[1] != len(self.centre):
            raise InputError(
                f"the clusters need states of width {len(self.centre)}, but the states have width {states.shape[-1]}; "
                "use the language model that the tree was induced with"
            )
        return (finite(states) - self.centre) @ self.projection

    def log_joint(self, states: np.ndarray) -> np.ndarray:
        """Return the log of each cluster's weight times its density, up to a constant.

        Shape:
            states: B×H; result: B×K
        """
        points = self.project(states)
        columns = []
        for weight, mean, whitening in zip(self.weights, self.means, self._whitening, strict=True):
            squares = np.square((points - mean) @ whitening).sum(-1)
            # Without the density's constant factor (2π)^(−P/2).
            columns.append(np.log(weight) + np.log(np.diag(whitening)).sum() - squares / 2)
        return np.stack(columns, axis=1)

    def subset(self, numbers: list[int]) -> GaussianClusters:
        """Return the given clusters, in this order, with renormalised weights."""
        weights = self.weights[numbers] / self.weights[numbers].sum()
        return GaussianClusters(self.centre, self.projection, weights, self.means[numbers], self.covariances[numbers])

    @cached_property
    def _whitening(self) -> np.ndarray:
        """Whitening matrices W with W·Wᵀ = Σ⁻¹ and a positive diagonal, K×P×P."""
        return np.linalg.inv(np.linalg.cholesky(self.covariances)).swapaxes(1, 2)


@dataclass(frozen=True)
class PathChooser:
    """The K clusters that correspond to the leaves of a tree."""

    clusters: GaussianClusters
    names: tuple[str, ...]  # the leaf of each cluster

    @classmethod
    def load(cls, directory: Path) -> PathChooser:
        """Load clusters from a directory written by :meth:`save`."""
        path = Path(directory) / CLUSTERS_FILE
        arrays = read_arrays(path, [*_ARRAYS, "names"], "give a directory written by fairseq-ext induce")
        names = tuple(str(name) for name in arrays.pop("names").ravel())
        _check_arrays(arrays, len(names), path)
        return cls(GaussianClusters(**arrays), names)

    def save(self, directory: Path) -> None:
        """Write the clusters as ``clusters.npz``, without pickles; equal clusters give equal bytes."""
        arrays = {name: getattr(self.clusters, name) for name in _ARRAYS}
        np.savez(directory / CLUSTERS_FILE, allow_pickle=False, names=np.array(self.names), **arrays)

    def votes(self, states: np.ndarray) -> dict[str, int]:
        """Count the sequences for which each leaf is the most probable.

        Shape:
            states: B×H
        """
        choices = self.clusters.log_joint(states).argmax(1)
        return dict(zip(self.names, np.bincount(choices, minlength=len(self.names)).tolist(), strict=True))

    def elect(self, states: np.ndarray, k: int) -> dict[str, int]:
        """Return the k leaves with the most votes of a domain's sequences, with their counts; leaves need a vote.

        Ties are broken by mean log probability.

        Shape:
            states: B×H
        """
        votes = self.votes(states)
        sums = dict(zip(self.names, self.clusters.log_joint(states).sum(0).tolist(), strict=True))
        order = sorted(self.names, key=lambda name: (votes[name], sums[name]), reverse=True)
        return {name: votes[name] for name in order[:k] if votes[name]}

    def check_number(self, k: int) -> None:
        """Raise InputError unless k is from 1 to the number of leaves."""
        if not 1 <= k <= len(self.names):
            raise InputError(
                f"{k} paths: the induced tree has {len(self.names)} leaves; choose from 1 to {len(self.names)} paths"
            )


def _check_arrays(arrays: dict[str, np.ndarray], num_leaves: int, path: Path) -> None:
    """Check arrays of a file, so that damage raises an error instead of causing wrong choices."""
    k, width, p = num_leaves, arrays["centre"].size, arrays["means"].size // max(num_leaves, 1)
    shapes = [(width,), (width, p), (k,), (k, p), (k, p, p)]  # in the order of the names
    for name, shape in zip(_ARRAYS, shapes, strict=True):
        array = arrays[name]
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise InputError(f"{path}: the array {name!r} is damaged; induce the tree again")
    if min(arrays["weights"].min(), np.linalg.eigvalsh(arrays["covariances"]).min()) <= 0:
        raise InputError(f"{path}: is not a valid Gaussian mixture; induce the tree again")


def finite(states: np.ndarray) -> np.ndarray:
    """Return states in double precision; raise InputError unless all are finite."""
    if not np.isfinite(states).all():
        raise InputError("the language model's states are NaN or infinite; check its checkpoint for damage")
    return np.asarray(states, dtype=np.float64)
