"""Fit clusters to states, assign domains to them, and merge the nearest clusters to a tree.

The clusters are those of Aharoni and Goldberg (2020): principal components, then a Gaussian mixture with full
covariances (hierarchical adapters §4.2).

The distance of Gaussians is the symmetrised Kullback–Leibler divergence over all dimensions. The paper (hierarchical
adapters §4.2, Eq. 1) misplaces a ½; this is the usual divergence:

    KL(N₀ ‖ N₁) = ½ · [tr(Σ₁⁻¹ Σ₀) + (μ₁ − μ₀)ᵀ Σ₁⁻¹ (μ₁ − μ₀) − P + ln(det Σ₁ / det Σ₀)]

Determinants are kept as logarithms: in a hundred dimensions they underflow.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairseq_ext.inputs.domain_tree import DomainTree
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.path_chooser import GaussianClusters, finite

_ROOT = "root"
_LONGEST_FIT = 300  # iterations
# Variances below this share of the largest one are rounding errors of zero.
_SMALLEST_SHARE = 1e-10

Settled = Mapping[int, Sequence[str]]  # domains by cluster


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
    states = finite(states)
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


def settle_domains(counts: np.ndarray, domains: Sequence[str]) -> dict[int, list[str]]:
    """Assign each domain to the cluster with most of its sequences, the first of equals.

    Args:
        counts: sequences by domain and cluster.
        domains: names.

    Shape:
        counts: D×K
    """
    settled: dict[int, list[str]] = {}
    for name, row in zip(domains, counts, strict=True):
        settled.setdefault(int(row.argmax()), []).append(name)
    if len(settled) == 1:
        raise InputError(
            f"all domains ({', '.join(domains)}) fall into one cluster and the others are empty: no tree; give more "
            "--sequences or --components, or another language model"
        )
    return dict(sorted(settled.items()))


def name_leaves(settled: Settled) -> dict[int, str]:
    """A leaf has the name of its only domain, or ``cluster_K``."""
    taken = [name for names in settled.values() for name in names]
    return {
        number: names[0] if len(names) == 1 else _free_name(f"cluster_{number}", taken)
        for number, names in settled.items()
    }


def link(divergences: np.ndarray) -> np.ndarray:
    """Average-linkage clustering, in scipy's format.

    Shape:
        divergences: K×K, symmetric; result: K−1×4, the two merged clusters, their distance, and the number of leaves
    """
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    return linkage(squareform(divergences, checks=False), method="average")


def tree_from_linkage(linkage: np.ndarray, settled: Settled, leaves: Mapping[int, str]) -> DomainTree:
    """The binary tree of the merges, root first, leaves last.

    Args:
        linkage: of the clusters in the order of ``settled``.
        settled: domains by cluster.
        leaves: names of the leaves by cluster.
    """
    count = len(settled)
    taken = [*leaves.values(), *(name for names in settled.values() for name in names)]
    # scipy numbers leaves from 0 and joins after them, the root last.
    numbers = [*reversed(range(count, 2 * count - 1)), *range(count)]
    inner = [_free_name(f"node_{rank}" if rank else _ROOT, taken) for rank in range(count - 1)]
    rows = {number: row for row, number in enumerate(numbers)}
    parents = {int(child): rows[count + row] for row, join in enumerate(linkage) for child in join[:2]}
    domains = {name: rows[leaf] for leaf, names in enumerate(settled.values()) for name in names}
    return DomainTree(
        (*inner, *(leaves[number] for number in settled)),
        tuple(parents.get(number) for number in numbers),
        dict(sorted(domains.items())),
    )


def symmetrised_divergences(means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """The divergence between every two of K Gaussians, ½ · [KL(N₀ ‖ N₁) + KL(N₁ ‖ N₀)] (Eq. 2).

    All Gaussians get the same small minimum variance in every direction, a share of the largest variance. Otherwise the
    divergence of singular covariances would be infinite.

    Shape:
        means: K×P; covariances: K×P×P, symmetric; result: K×K, symmetric, the diagonal zero
    """
    variances, directions = np.linalg.eigh((covariances + covariances.swapaxes(1, 2)) / 2)
    variances = np.maximum(variances, _SMALLEST_SHARE * variances.max())
    log_determinants = np.log(variances).sum(-1)  # K
    # Coordinates in which a Gaussian's covariance is the identity, and back: K×P×P.
    whitening = directions / np.sqrt(variances)[:, None, :]
    factors = directions * np.sqrt(variances)[:, None, :]
    divergences = np.zeros((len(means), len(means)))
    for second in range(len(means)):
        trace = np.square(whitening[second].T @ factors).sum((-2, -1))  # K
        distance = np.square((means - means[second]) @ whitening[second]).sum(-1)  # K
        log_ratio = log_determinants[second] - log_determinants
        divergences[:, second] = (trace + distance - means.shape[1] + log_ratio) / 2
    divergences = np.maximum((divergences + divergences.T) / 2, 0)
    np.fill_diagonal(divergences, 0)
    return divergences


def _free_name(name: str, taken: Iterable[str]) -> str:
    """The name, with a suffix if it is taken."""
    while name in taken:
        name += "_"
    return name
