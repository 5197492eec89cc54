"""Fit clusters to hidden states, assign domains to clusters, and merge the nearest clusters into a tree.

Clustering follows Aharoni and Goldberg (2020): principal components, then a Gaussian mixture with full covariances
(hierarchical adapters §4.2).

The distance between Gaussians is the symmetrised Kullback–Leibler divergence over all dimensions. The paper
(hierarchical adapters §4.2, Eq. 1) misplaces a ½; this module uses the standard divergence:

    KL(N₀ ‖ N₁) = ½ · [tr(Σ₁⁻¹ Σ₀) + (μ₁ − μ₀)ᵀ Σ₁⁻¹ (μ₁ − μ₀) − P + ln(det Σ₁ / det Σ₀)]

The logarithms cancel in the sum of both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fairseq_ext.base.domain_tree import DomainTree
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.path_chooser import GaussianClusters, finite

_ROOT = "root"
_LONGEST_FIT = 300  # iterations

Settled = Mapping[int, Sequence[str]]  # domains by cluster


def fit_clusters(
    states: np.ndarray, num_clusters: int, *, dimensions: int, covariance_floor: float, seed: int
) -> tuple[GaussianClusters, dict[str, float]]:
    """Fit a Gaussian mixture with full covariances. Return the clusters and statistics of the fit.

    The result is deterministic. At most ``dimensions`` principal components are kept (P); ``explained`` is their share
    of the variance. ``covariance_floor`` is added to the variances, as a share of the mean variance in the P
    dimensions. It keeps the covariance of a cluster with fewer than P sequences invertible.

    Shape:
        states: N×H
    """
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    if len(states) < max(num_clusters, 2):
        raise InputError(
            f"{len(states)} sequences are too few for {num_clusters} clusters; raise --sequences or lower --components"
        )
    states = finite(states)
    # Rounding of sums depends on the number of threads, and EM amplifies small differences.
    with threadpool_limits(1):
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
    return clusters, {
        "explained": float(pca.explained_variance_ratio_.sum()),
        "iterations": int(mixture.n_iter_),
        "has_converged": bool(mixture.converged_),
    }


def settle_domains(counts: np.ndarray, domains: Sequence[str]) -> dict[int, list[str]]:
    """Assign each domain to the cluster with most of its sequences; ties go to the first cluster.

    Shape:
        counts: D×K, number of sequences by domain and cluster
    """
    settled: dict[int, list[str]] = {}
    for name, row in zip(domains, counts, strict=True):
        settled.setdefault(int(row.argmax()), []).append(name)
    if len(settled) == 1:
        raise InputError(
            f"all domains ({', '.join(domains)}) belong to one cluster, so there is no tree; raise --sequences or "
            "--components, or use another language model"
        )
    return dict(sorted(settled.items()))


def name_leaves(settled: Settled) -> dict[int, str]:
    """Name each leaf after its only domain, or ``cluster_K`` if it has several."""
    return {number: names[0] if len(names) == 1 else f"cluster_{number}" for number, names in settled.items()}


def link(divergences: np.ndarray) -> np.ndarray:
    """Cluster with average linkage. The result has scipy's format.

    Shape:
        divergences: K×K, symmetric; result: (K−1)×4, the two merged clusters, their distance, and the number of leaves
    """
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    return linkage(squareform(divergences, checks=False), method="average")


def tree_from_linkage(linkage: np.ndarray, settled: Settled, leaves: Mapping[int, str]) -> DomainTree:
    """Convert a linkage of the clusters in ``settled`` to a binary tree. Nodes are ordered from root to leaves."""
    count = len(settled)
    # scipy numbers the leaves from 0, then the merges; the root is last.
    numbers = [*reversed(range(count, 2 * count - 1)), *range(count)]
    inner = [f"node_{rank}" if rank else _ROOT for rank in range(count - 1)]
    rows = {number: row for row, number in enumerate(numbers)}
    parents = {int(child): rows[count + row] for row, join in enumerate(linkage) for child in join[:2]}
    domains = {name: rows[leaf] for leaf, names in enumerate(settled.values()) for name in names}
    return DomainTree(
        (*inner, *(leaves[number] for number in settled)),
        tuple(parents.get(number) for number in numbers),
        dict(sorted(domains.items())),
    )


def symmetrised_divergences(means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Return the divergence between all pairs of K Gaussians, ½ · [KL(N₀ ‖ N₁) + KL(N₁ ‖ N₀)] (Eq. 2).

    Shape:
        means: K×P; covariances: K×P×P, positive definite; result: K×K, symmetric
    """
    roots = np.linalg.cholesky(covariances)
    whitening = np.linalg.inv(roots)
    divergences = np.zeros((len(means), len(means)))
    for second in range(len(means)):
        trace = np.square(whitening[second] @ roots).sum((-2, -1))  # K
        distance = np.square((means - means[second]) @ whitening[second].T).sum(-1)  # K
        divergences[:, second] = (trace + distance - means.shape[1]) / 2
    # Rounding may make the divergence of equal Gaussians slightly negative.
    return np.maximum((divergences + divergences.T) / 2, 0)
