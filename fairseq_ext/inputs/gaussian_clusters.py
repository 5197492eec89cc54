"""Clusters of text: a Gaussian mixture over a language model's states in few dimensions.

Aharoni and Goldberg (2020), as hierarchical adapters §4.2 use it: principal components, then a mixture with full
covariances. scikit-learn fits; what is kept are plain arrays, which need neither it nor pickles.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairseq_ext.inputs.errors import InputError

_LONGEST_FIT = 300  # iterations


@dataclass(frozen=True, eq=False)
class GaussianClusters:
    """A Gaussian mixture, and the projection of states to the coordinates it lives in.

    Args:
        centre: H, subtracted from states.
        projection: H×P, applied then.
        weights: K, shares of the clusters.
        means: K×P
        covariances: K×P×P, positive definite.
    """

    centre: np.ndarray
    projection: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def project(self, states: np.ndarray) -> np.ndarray:
        """States in the mixture's coordinates, first the one in which they vary most.

        Shape:
            states: B×H; result: B×P
        """
        if states.shape[1] != len(self.centre):
            raise InputError(
                f"the clusters are of states of width {len(self.centre)}, these are of width {states.shape[-1]}; "
                "use the language model that the tree was induced with"
            )
        return (_finite(states) - self.centre) @ self.projection

    def log_joint(self, states: np.ndarray) -> np.ndarray:
        """Logarithm of each cluster's weight times its density, but for a constant.

        Shape:
            states: B×H; result: B×K
        """
        points = self.project(states)
        columns = []
        for weight, mean, whitening in zip(self.weights, self.means, self._whitening, strict=True):
            squares = np.square((points - mean) @ whitening).sum(-1)
            # Without the density's (2π)^(−P/2), which is the same everywhere.
            columns.append(np.log(weight) + np.log(np.diag(whitening)).sum() - squares / 2)
        return np.stack(columns, axis=1)

    def subset(self, numbers: list[int]) -> GaussianClusters:
        """Only these clusters, in this order, with weights in their old proportion."""
        weights = self.weights[numbers] / self.weights[numbers].sum()
        return GaussianClusters(self.centre, self.projection, weights, self.means[numbers], self.covariances[numbers])

    @cached_property
    def _whitening(self) -> np.ndarray:
        """W with W·Wᵀ = Σ⁻¹ and a positive diagonal, K×P×P."""
        return np.linalg.inv(np.linalg.cholesky(self.covariances)).swapaxes(1, 2)


@dataclass(frozen=True)
class Fit:
    """How the fit went.

    Args:
        explained: share of the states' variance that is left in the coordinates.
        iterations: of expectation maximisation.
        has_converged: whether they ended by themselves.
    """

    explained: float
    iterations: int
    has_converged: bool


def fit_clusters(
    states: np.ndarray, num_clusters: int, *, dimensions: int, covariance_floor: float, seed: int
) -> tuple[GaussianClusters, Fit]:
    """Fit a Gaussian mixture with full covariances; equal arguments give equal bytes.

    Args:
        states: N×H.
        num_clusters: K.
        dimensions: P, principal components to keep; fewer if there are not as many.
        covariance_floor: added to the variances, as a share of the states' own mean variance in the P dimensions. It
            is what keeps the covariance of a cluster with fewer than P sequences invertible.
        seed: draws the start.
    """
    from sklearn.decomposition import PCA
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    if len(states) < max(num_clusters, 2):
        raise InputError(
            f"{len(states)} sequences for {num_clusters} clusters; give more --sequences or fewer --components"
        )
    states = _finite(states)
    if not np.ptp(states, axis=0).any():
        raise InputError("all sequences have the same state: nothing to cluster; is the language model trained?")
    # Sums in threads depend on how many there are, and EM makes much of little.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported by the caller
        pca = PCA(min(dimensions, len(states) - 1, states.shape[1]), svd_solver="covariance_eigh").fit(states)
        projection = pca.components_.T / np.sqrt(pca.explained_variance_.mean())
        mixture = GaussianMixture(
            num_clusters, reg_covar=covariance_floor, max_iter=_LONGEST_FIT, random_state=seed, tol=1e-4
        )
        try:
            mixture.fit((states - pca.mean_) @ projection)
        except ValueError as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"the mixture cannot be fitted ({reason}); raise --covariance-floor") from None
    clusters = GaussianClusters(pca.mean_, projection, mixture.weights_, mixture.means_, mixture.covariances_)
    fit = Fit(float(pca.explained_variance_ratio_.sum()), int(mixture.n_iter_), bool(mixture.converged_))
    return clusters, fit


def _finite(states: np.ndarray) -> np.ndarray:
    if not np.isfinite(states).all():
        raise InputError("the language model's states are not finite; is its checkpoint damaged?")
    return np.asarray(states, dtype=np.float64)
