"""The divergence between Gaussians: against the formula where that can be computed, and where it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from fairseq_ext.induction.divergence import symmetrised_divergences


def random_gaussians(count: int, dimensions: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(count, dimensions, dimensions + 2))
    return rng.normal(size=(count, dimensions)), factors @ factors.swapaxes(1, 2) / dimensions


def plain_kl(mean0: np.ndarray, cov0: np.ndarray, mean1: np.ndarray, cov1: np.ndarray) -> float:
    """The formula as it is written, with inverses and determinants."""
    inverse, difference = np.linalg.inv(cov1), mean1 - mean0
    log_ratio = np.log(np.linalg.det(cov1) / np.linalg.det(cov0))
    return (np.trace(inverse @ cov0) + difference @ inverse @ difference - len(mean0) + log_ratio) / 2


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_in_few_dimensions_it_is_the_plain_formula(dimensions: int) -> None:
    means, covariances = random_gaussians(4, dimensions, seed=dimensions)
    found = symmetrised_divergences(means, covariances)
    for i in range(4):
        for j in range(4):
            one, other = (means[i], covariances[i]), (means[j], covariances[j])
            assert found[i, j] == pytest.approx((plain_kl(*one, *other) + plain_kl(*other, *one)) / 2, rel=1e-9)


def test_a_value_computed_by_hand() -> None:
    # N(0, 1) and N(1, 4): KL = ½(1/4 + 1/4 − 1 + ln 4) and ½(4 + 1 − 1 − ln 4); the logarithms cancel.
    found = symmetrised_divergences(np.array([[0.0], [1.0]]), np.array([[[1.0]], [[4.0]]]))
    np.testing.assert_allclose(found, [[0, 0.875], [0.875, 0]], rtol=1e-12)


def test_determinants_that_underflow_do_no_harm() -> None:
    variances = np.array([np.full(100, 1e-4), np.full(100, 4e-4)])
    covariances = np.stack([np.diag(row) for row in variances])
    assert np.linalg.det(covariances[0]) == 0  # what the plain formula would divide by
    # In each dimension ½ · ½(1/4 + 4 − 2) of the variances, ½ · ½ · d²·(1/1e-4 + 1/4e-4) of means d apart.
    means = np.array([np.zeros(100), np.full(100, 1e-2)])
    found = symmetrised_divergences(means, covariances)
    assert found[0, 1] == pytest.approx(100 * (0.5625 + 0.25 * 1.25), rel=1e-9)


def test_hundred_dimensions_and_forty_gaussians_agree_with_log_determinants() -> None:
    means, covariances = random_gaussians(40, 100, seed=3)
    found = symmetrised_divergences(means, covariances)
    assert np.isfinite(found).all()
    assert np.array_equal(found, found.T)
    for i, j in [(0, 1), (7, 33), (39, 2)]:
        expected = 0.0
        for a, b in [(i, j), (j, i)]:
            inverse, difference = np.linalg.inv(covariances[b]), means[b] - means[a]
            log_ratio = np.linalg.slogdet(covariances[b])[1] - np.linalg.slogdet(covariances[a])[1]
            expected += (np.trace(inverse @ covariances[a]) + difference @ inverse @ difference - 100 + log_ratio) / 4
        assert found[i, j] == pytest.approx(expected, rel=1e-6)


def test_degenerate_gaussians_in_one_subspace_are_compared_in_it() -> None:
    # All live in the same 5 of 100 dimensions; the other 95 say nothing of how far apart they are.
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.normal(size=(100, 5)))[0]
    means, covariances = random_gaussians(6, 5, seed=6)
    found = symmetrised_divergences(means @ basis.T, basis @ covariances @ basis.T)
    np.testing.assert_allclose(found, symmetrised_divergences(means, covariances), rtol=1e-4)


def test_degenerate_gaussians_of_different_subspaces_are_far_but_finitely() -> None:
    rng = np.random.default_rng(7)
    samples = rng.normal(size=(30, 3, 100))  # of 3 points each: rank 2
    centred = samples - samples.mean(1, keepdims=True)
    covariances = centred.swapaxes(1, 2) @ centred / 3
    covariances[0] = 0  # of a single point
    found = symmetrised_divergences(samples.mean(1), covariances)
    assert np.isfinite(found).all()
    assert np.array_equal(found, found.T)
    assert (np.diag(found) == 0).all()
    # Far beyond what full-rank Gaussians of such means and variances have.
    assert found[~np.eye(30, dtype=bool)].min() > 1e6


def test_it_does_not_depend_on_the_coordinates() -> None:
    means, covariances = random_gaussians(5, 20, seed=8)
    rotation = np.linalg.qr(np.random.default_rng(9).normal(size=(20, 20)))[0]
    turned = symmetrised_divergences(1e-3 * means @ rotation, 1e-6 * rotation.T @ covariances @ rotation)
    np.testing.assert_allclose(turned, symmetrised_divergences(means, covariances), rtol=1e-7)


def test_what_is_no_number_is_refused() -> None:
    means, covariances = random_gaussians(2, 3, seed=1)
    with pytest.raises(ValueError, match="covariances are not finite"):
        symmetrised_divergences(means, covariances * np.nan)
    with pytest.raises(ValueError, match="means are not finite"):
        symmetrised_divergences(means * np.inf, covariances)
    with pytest.raises(ValueError, match="no Gaussian has any variance"):
        symmetrised_divergences(means, covariances * 0)
