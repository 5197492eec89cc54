"""Votes of sequences for leaves, and the file the chooser is read from."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.path_chooser import GaussianClusters, PathChooser


@pytest.fixture
def chooser() -> PathChooser:
    """Three unit Gaussians on a line, at 0, 4 and 10."""
    means = np.array([[0.0, 0.0], [4.0, 0.0], [10.0, 0.0]])
    clusters = GaussianClusters(np.zeros(2), np.eye(2), np.full(3, 1 / 3), means, np.stack([np.eye(2)] * 3))
    return PathChooser(clusters, ("law", "med", "cluster_7"))


def on_line(*places: float) -> np.ndarray:
    return np.array([[place, 1.0] for place in places])


def test_votes_and_election(chooser: PathChooser) -> None:
    states = on_line(10, 11, 12, 1, 0)
    assert chooser.votes(states) == {"cluster_7": 3, "law": 2, "med": 0}
    assert list(chooser.elect(states, 2).items()) == [("cluster_7", 3), ("law", 2)]
    assert chooser.elect(on_line(10, 11), 3) == {"cluster_7": 2}  # the others have no vote


def test_even_votes_are_decided_by_logarithms(chooser: PathChooser) -> None:
    """So far apart, all probabilities but the greatest are zero in floating point, and their means are alike."""
    far = dataclasses.replace(chooser.clusters, means=chooser.clusters.means * [[1, 1], [20, 1], [20, 1]])
    chooser = PathChooser(far, chooser.names)  # at 0, 80 and 200
    assert list(chooser.elect(on_line(200, 100), 3).items()) == [("cluster_7", 1), ("med", 1)]
    assert list(chooser.elect(on_line(0, 200), 3).items()) == [("law", 1), ("cluster_7", 1)]


def test_a_file_gives_the_same_choices_and_equal_bytes(chooser: PathChooser, tmp_path: Path) -> None:
    chooser.save(tmp_path)
    read = PathChooser.load(tmp_path)
    states = np.random.default_rng(1).normal(scale=6, size=(50, 2))
    assert read.elect(states, 3) == chooser.elect(states, 3)
    (tmp_path / "again").mkdir()
    read.save(tmp_path / "again")
    assert (tmp_path / "again" / "clusters.npz").read_bytes() == (tmp_path / "clusters.npz").read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        {"weights": np.array([0.5, 0.5, 0.0])},
        {"covariances": -np.stack([np.eye(2)] * 3)},
        {"means": np.full((3, 2), np.nan)},
        {"centre": None},
    ],
)
def test_damaged_files_are_named(chooser: PathChooser, tmp_path: Path, damage: dict[str, np.ndarray | None]) -> None:
    arrays = {**vars(chooser.clusters), "names": np.array(chooser.names), **damage}
    np.savez(tmp_path / "clusters.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(InputError, match=r"clusters\.npz: .*(damaged|mixture|cannot be read)"):
        PathChooser.load(tmp_path)
