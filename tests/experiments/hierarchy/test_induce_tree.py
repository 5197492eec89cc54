"""A tree of a small model and paths of it, from the command lines; clusters, the tree of them, and divergences."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch.distributions import MultivariateNormal, kl_divergence

from fairseq_ext.base.domain_tree import read_tree, tree_from_json
from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.hierarchy.config import Induction
from fairseq_ext.experiments.hierarchy.induce_tree import (
    describe_tree,
    fit_clusters,
    induce,
    link,
    name_leaves,
    settle_domains,
    symmetrised_divergences,
    tree_from_linkage,
)
from tests.experiments.small_lm import DOMAINS, WORDS, make_checkpoint, make_data
from tests.verbs import verb

OPTIONS = ["--sequences", "20", "--cpu"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Data directory and checkpoint."""
    root = tmp_path_factory.mktemp("small-lm")
    data = make_data(root / "data")
    return data, make_checkpoint(root / "lm.pt", data)


@pytest.fixture(scope="module")
def induced(small: tuple[Path, Path]) -> Path:
    """An induced tree of the four domains."""
    data, checkpoint = small
    output = data.parent / "tree"
    verb("induce")([str(checkpoint), str(data), str(output), *OPTIONS])
    return output


def test_related_domains_are_siblings(induced: Path) -> None:
    tree = read_tree(induced / "tree.json")
    assert tree.names[0] == "root"
    assert set(tree.domains) == set(DOMAINS)
    for one, other, third in (("bio", "med", "law"), ("law", "tax", "bio")):
        shared = set(tree.path(one)) & set(tree.path(other))
        assert len(shared) > 1  # more than the root
        assert shared & set(tree.path(third)) == {0}
    record = json.loads((induced / "clusters.json").read_text())
    assert record["domains"] == sorted(DOMAINS)
    assert np.array(record["counts"]).sum(1).tolist() == [20] * 4
    assert record["options"]["tokens"] == 16
    lines = describe_tree(induced).splitlines()
    depths = {line.strip().split(":")[0]: line.count("  ") + 1 for line in lines}
    assert depths == {name: len(tree.path(name)) for name in tree.names}
    (number,) = (cluster["number"] for cluster in record["clusters"] if "law" in cluster["domains"])
    percentage = 5 * record["counts"][record["domains"].index("law")][number]  # of 20
    assert f">{percentage}</text>" in (induced / "domains-by-cluster.svg").read_text()


def test_empty_clusters_are_dropped() -> None:
    # Two domains of the same text, which one cluster wins; the other cluster gets neither.
    rng = np.random.default_rng(1)
    states = [rng.normal(loc=place, size=(60, 6)) for place in (0, 9, 9, -9)]
    options = Induction(components=4, covariance_floor=1e-2)
    tree, chooser, record = induce(states, ["a", "b", "c", "d"], options)
    assert sorted(each["domains"] for each in record["clusters"]) == [["a"], ["b", "c"], ["d"]]
    assert len(record["empty"]) == 1
    (shared,) = (each["leaf"] for each in record["clusters"] if len(each["domains"]) == 2)
    assert tree.path("b") == tree.path("c") == tree.path(shared)
    assert len(tree.names) == 5
    # What no longer has a cluster falls to those that are left.
    assert sum(chooser.votes(np.concatenate(states)).values()) == 240
    assert chooser.clusters.weights.sum() == pytest.approx(1)


def test_unseen_domains_choose_related_leaves(
    small: tuple[Path, Path], induced: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    unseen = make_data(tmp_path / "unseen", {"court": WORDS[21:31], "drug": WORDS[1:11]}, seed=9)

    def choose(name: str, *options: str) -> tuple[dict, dict]:
        output = tmp_path / name
        verb("paths")([str(small[1]), str(induced), str(unseen), str(output), "--cpu", *options])
        return json.loads((output / "paths.json").read_text()), json.loads((output / "votes.json").read_text())

    paths, votes = choose("paths")
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"court  {next(iter(paths['court'].values())) / sum(votes['court'].values()):6.1%}  ")
    # A few tokens of a few sequences do nearly as well.
    few, _ = choose("short", "--choose-tokens", "4", "--num-paths", "1", "--sequences", "10")
    tree = read_tree(induced / "tree.json")
    for name, domains in {"court": ("law", "tax"), "drug": ("bio", "med")}.items():
        kin = {tree.names[tree.domains[domain]] for domain in domains}
        assert set(paths[name]) == kin > set(few[name])
        assert set(votes[name]) == set(tree.leaves)
        assert list(paths[name].values()) == sorted((votes[name][leaf] for leaf in paths[name]), reverse=True)


def test_mismatched_models_and_trees_are_refused(small: tuple[Path, Path], induced: Path, tmp_path: Path) -> None:
    data, checkpoint = small
    wide = make_checkpoint(tmp_path / "wide.pt", data, decoder_embed_dim=64)
    for model, tree, place in (
        (wide, induced, "width 32.* width 64"),
        (checkpoint, data, r"clusters\.json: not found"),
    ):
        with pytest.raises(InputError, match=place):
            verb("paths")([str(model), str(tree), str(data), str(tmp_path / "paths"), "--cpu"])


def test_domains_settle_where_most_of_their_sequences_are() -> None:
    counts = np.array([[1, 0, 9, 0], [5, 0, 5, 0], [0, 3, 7, 0], [0, 2, 1, 1]])
    # b is undecided and goes to the first; cluster 3 has a sequence, but wins no domain.
    assert settle_domains(counts, ["a", "b", "c", "d"]) == {0: ["b"], 1: ["d"], 2: ["a", "c"]}
    with pytest.raises(InputError, match=r"\(a, b\)"):
        settle_domains(np.array([[0, 4], [1, 3]]), ["a", "b"])


def test_the_tree_of_known_distances() -> None:
    # Clusters on a line, at 0, 1, 4 and 10: the first two are joined at 1, the third at 3.5, the last at 8.33.
    places = np.array([0.0, 1.0, 4.0, 10.0])
    linkage = link(np.abs(places[:, None] - places))
    np.testing.assert_allclose(linkage[:, 2], [1, 3.5, 25 / 3])
    settled = {0: ["w"], 3: ["x"], 4: ["y", "z"], 7: ["v"]}
    tree = tree_from_linkage(linkage, settled, name_leaves(settled))
    assert tree_from_json(tree.to_json(), "t") == tree
    assert {domain: [tree.names[row] for row in tree.path(domain)] for domain in "wxyzv"} == {
        "w": ["w", "node_2", "node_1", "root"],
        "x": ["x", "node_2", "node_1", "root"],
        **dict.fromkeys("yz", ["cluster_4", "node_1", "root"]),
        "v": ["v", "root"],
    }


@pytest.mark.parametrize("dimensions", [1, 5, 100])
def test_the_divergence_is_that_of_the_formula(dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    factors = rng.normal(size=(4, dimensions, dimensions + 2))
    means, covariances = rng.normal(size=(4, dimensions)), factors @ factors.swapaxes(1, 2) / dimensions
    found = symmetrised_divergences(means, covariances)
    assert np.array_equal(found, found.T)
    for i, j in [(0, 0), (0, 1), (2, 3)]:
        one, other = (MultivariateNormal(torch.tensor(means[k]), torch.tensor(covariances[k])) for k in (i, j))
        expected = float(kl_divergence(one, other) + kl_divergence(other, one)) / 2
        assert found[i, j] == pytest.approx(expected, rel=1e-6, abs=1e-9)


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
    densities = map(multivariate_normal, clusters.means, clusters.covariances)
    columns = np.stack([density.logpdf(points) for density in densities], axis=1)
    expected = np.log(clusters.weights) + columns + 2 * np.log(2 * np.pi)
    np.testing.assert_allclose(clusters.log_joint(states), expected, rtol=1e-9, atol=1e-9)
    kept = expected[:, [2, 0]] - np.log(clusters.weights[[2, 0]].sum())
    np.testing.assert_allclose(clusters.subset([2, 0]).log_joint(states), kept, rtol=1e-9, atol=1e-9)


def test_coordinates_are_in_units_of_the_mean_variance() -> None:
    # So that the floor means the same whatever the scale of a model's states.
    states = clouds(3, 40, 6)
    for scale in (1e-4, 1.0, 1e4):
        clusters, fit = fit_clusters(scale * states, 3, **FIT)
        assert fit["has_converged"]
        assert fit["explained"] == pytest.approx(1)
        points = clusters.project(scale * states)
        assert points.var(axis=0, ddof=1).mean() == pytest.approx(1)
        assert (np.diff(points.var(axis=0)) <= 0).all()
        choices = clusters.log_joint(scale * states).argmax(1).reshape(3, 40)
        assert (choices == choices[:, :1]).all()
        assert len(set(choices[:, 0])) == 3


def test_fits_are_deterministic() -> None:
    states = clouds(6, 30, 20, spread=0.7)
    first, again = (fit_clusters(states, 6, **FIT)[0] for _ in range(2))
    other = fit_clusters(states, 6, **{**FIT, "seed": 2})[0]
    for name in ("centre", "projection", "weights", "means", "covariances"):
        assert getattr(first, name).tobytes() == getattr(again, name).tobytes()
    assert first.means.tobytes() != other.means.tobytes()


def test_bad_states_are_named() -> None:
    states = clouds(2, 5, 4)
    damaged = np.where(states == states.max(), np.nan, states)
    for given, clusters, floor, remedy in (
        (states, 11, 1e-3, "--sequences"),
        (damaged, 2, 1e-3, "checkpoint"),
        (clouds(5, 2, 30), 5, 0.0, "--covariance-floor"),
    ):
        with pytest.raises(InputError, match=remedy):
            fit_clusters(given, clusters, **{**FIT, "covariance_floor": floor})
