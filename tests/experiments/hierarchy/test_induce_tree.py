"""Inducing a tree and choosing paths of it, from the command lines on a small model."""

import json
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.domain_tree import read_tree
from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.hierarchy.config import Induction
from fairseq_ext.experiments.hierarchy.induce_tree import describe_tree, induce
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
