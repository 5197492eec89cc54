"""How far apart Gaussians are: the symmetrised Kullback–Leibler divergence, in any number of dimensions.

The paper (hierarchical adapters §4.2, Eq. 1) misplaces a ½; this is the divergence as it is known,

    KL(N₀ ‖ N₁) = ½ · [tr(Σ₁⁻¹ Σ₀) + (μ₁ − μ₀)ᵀ Σ₁⁻¹ (μ₁ − μ₀) − P + ln(det Σ₁ / det Σ₀)],

over all dimensions. Determinants are only met as logarithms: in a hundred dimensions they underflow.
"""

from __future__ import annotations

import numpy as np

# Variances below this share of the largest one are rounding errors of zero.
_SMALLEST_SHARE = 1e-10


def symmetrised_divergences(means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """The divergence between every two of K Gaussians, ½ · [KL(N₀ ‖ N₁) + KL(N₁ ‖ N₀)] (Eq. 2).

    Where a covariance is singular the divergence is infinite, and near it, noise. All Gaussians are therefore given
    one and the same least variance in every direction, a tiny share of the largest variance of all: directions in
    which none of them varies add nothing, those in which only some vary add much, but a finite amount.

    Shape:
        means: K×P; covariances: K×P×P, symmetric; result: K×K, symmetric, the diagonal zero

    Raises:
        ValueError: if something is not finite, or no Gaussian varies at all.
    """
    variances, directions = _principal_axes(covariances)
    if not np.isfinite(means).all():
        raise ValueError("the Gaussians' means are not finite")
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


def _principal_axes(covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variances K×P, none of them zero, and their directions as columns, K×P×P."""
    if not np.isfinite(covariances).all():
        raise ValueError("the Gaussians' covariances are not finite")
    variances, directions = np.linalg.eigh((covariances + covariances.swapaxes(1, 2)) / 2)
    largest = variances.max()
    if largest <= 0:
        raise ValueError("no Gaussian has any variance")
    return np.maximum(variances, _SMALLEST_SHARE * largest), directions
