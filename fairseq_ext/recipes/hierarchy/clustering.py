"""From clusters to a tree: assign domains to clusters, then merge the nearest clusters.

The distance of Gaussians is the symmetrised Kullback–Leibler divergence over all dimensions. The paper (hierarchical
adapters §4.2, Eq. 1) misplaces a ½; this is the usual divergence:

    KL(N₀ ‖ N₁) = ½ · [tr(Σ₁⁻¹ Σ₀) + (μ₁ − μ₀)ᵀ Σ₁⁻¹ (μ₁ − μ₀) − P + ln(det Σ₁ / det Σ₀)]

Determinants are kept as logarithms: in a hundred dimensions they underflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fairseq_ext.inputs.domain_tree import DomainTree
from fairseq_ext.inputs.errors import InputError

_ROOT = "root"
# Variances below this share of the largest one are rounding errors of zero.
_SMALLEST_SHARE = 1e-10

Settled = Mapping[int, Sequence[str]]  # domains by cluster


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
