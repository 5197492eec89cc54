"""The Gaussian mixture: known clusters are found, probabilities are those of the formula, bad input is named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.gaussian_clusters import GaussianClusters, fit_clusters

FIT = {"dimensions": 100, "covariance_floor": 1e-3, "seed": 1}


def clouds(centres: int, count: int, width: int, seed: int = 1, spread: float = 8.0) -> np.ndarray:
    """``count`` points around each of some random centres, centre by centre."""
    rng = np.random.default_rng(seed)
    means = rng.normal(scale=spread, size=(centres, width))
    return np.concatenate([mean + rng.normal(size=(count, width)) for mean in means])


def test_probabilities_are_those_of_the_formula() -> None:
    states = clouds(3, 60, 5, spread=1.0)
    clusters, _ = fit_clusters(states, 3, **{**FIT, "dimensions": 4})
    points = clusters.project(states)
    assert points.shape == (180, 4)
    expected = np.stack(
        [
            np.log(weight) + multivariate_normal(mean, covariance).logpdf(points) + 2 * np.log(2 * np.pi)
            for weight, mean, covariance in zip(clusters.weights, clusters.means, clusters.covariances, strict=True)
        ],
        axis=1,
    )
    np.testing.assert_allclose(clusters.log_joint(states), expected, rtol=1e-9, atol=1e-9)
    subset = clusters.subset([2, 0])
    np.testing.assert_allclose(
        subset.log_joint(states), expected[:, [2, 0]] - np.log(clusters.weights[[2, 0]].sum()), rtol=1e-9, atol=1e-9
    )


def test_coordinates_are_in_units_of_the_mean_variance() -> None:
    # So that the floor means the same whatever the scale of a model's states.
    states = clouds(3, 40, 6)
    for scale in (1e-4, 1.0, 1e4):
        clusters, fit = fit_clusters(scale * states, 3, **FIT)
        assert fit.has_converged
        assert fit.explained == pytest.approx(1)
        points = clusters.project(scale * states)
        assert points.var(axis=0, ddof=1).mean() == pytest.approx(1)
        assert (np.diff(points.var(axis=0)) <= 0).all()
        choices = clusters.log_joint(scale * states).argmax(1).reshape(3, 40)
        assert (choices == choices[:, :1]).all()
        assert len(set(choices[:, 0])) == 3


def test_a_seed_gives_the_same_bytes() -> None:
    states = clouds(6, 30, 20, spread=0.7)
    first, again = (fit_clusters(states, 6, **FIT)[0] for _ in range(2))
    other = fit_clusters(states, 6, **{**FIT, "seed": 2})[0]
    for name in ("centre", "projection", "weights", "means", "covariances"):
        assert getattr(first, name).tobytes() == getattr(again, name).tobytes()
    assert first.means.tobytes() != other.means.tobytes()


def test_bad_states_are_named() -> None:
    states = clouds(2, 5, 4)
    damaged = np.where(states == states.max(), np.nan, states)
    no_floor = {**FIT, "covariance_floor": 0.0}
    for given, clusters, options, remedy in (
        (states, 11, FIT, "--sequences"),
        (np.ones((10, 4)), 2, FIT, "trained"),
        (damaged, 2, FIT, "checkpoint"),
        (clouds(5, 2, 30), 5, no_floor, "--covariance-floor"),
    ):
        with pytest.raises(InputError, match=remedy):
            fit_clusters(given, clusters, **options)
    plain = GaussianClusters(np.zeros(4), np.eye(4), np.ones(1), np.zeros((1, 4)), np.eye(4)[None])
    for bad in (np.zeros((2, 5)), np.full((2, 4), np.nan)):
        with pytest.raises(InputError):
            plain.project(bad)
