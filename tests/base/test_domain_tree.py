"""Domain trees: paths, weights, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.base.domain_tree import multi_tree, names_of_paths, read_tree, single_tree, tree_from_json
from fairseq_ext.base.errors import InputError

# The manual tree of the paper's Figure 1, leaves first.
PARENTS = {
    **{"frontiers": "science", "journals": "science", "booking": "reviews", "yelp": "reviews"},
    **{"science": "root", "reviews": "root", "root": None},
}
DOMAINS = {"yelp-com": "yelp", "plos": "journals"} | {name: name for name in ("booking", "journals", "frontiers")}


def as_json(parents: Any = None, domains: Any = None) -> str:
    parents = PARENTS if parents is None else parents
    nodes = [{"name": name, "parent": parent} for name, parent in parents.items()]
    return json.dumps({"nodes": nodes, "domains": DOMAINS if domains is None else domains})


def test_leaves_of_one_node_are_drawn_beside_each_other() -> None:
    parents = {"a": "left", "b": "right", "c": "left", "alone": None, "left": "top", "right": "top", "top": None}
    tree = tree_from_json(as_json(parents, {name: name for name in ("a", "b", "c", "alone")}), "t")
    assert tree.children == ((), (), (), (), (0, 2), (1,), (4, 5))
    assert tree.leaves == ("a", "b", "c", "alone")
    assert tree.drawn_leaves == ("alone", "a", "c", "b")


def test_paths_of_domains_and_their_weights() -> None:
    tree = tree_from_json(as_json(), "t")
    assert tree.path("yelp") == tree.path("yelp-com") == (3, 5, 6)
    assert tree.path("science") == (4, 6)
    assert tree.mean_path_length == 3
    third, sixth = 1 / 3, 1 / 6
    for paths, weights in (
        (["plos"], [0, third, 0, 0, third, 0, third]),
        (["frontiers", "journals"], [sixth, sixth, 0, 0, third, 0, third]),  # two nodes are shared
        (["science", "yelp", "yelp"], np.array([0, 0, 0, 4, 3, 4, 7]) / 18),  # a path named twice counts twice
        ({"yelp": 3, "frontiers": 1}, np.array([1, 0, 0, 3, 1, 3, 4]) / 12),
        ([], np.zeros(7)),
    ):
        np.testing.assert_allclose(tree.path_weights(paths), weights, rtol=1e-6)


def test_the_baselines_are_trees() -> None:
    single, multi = single_tree(["a", "b"]), multi_tree(["a", "b"])
    assert single.path_weights(["b"]).tolist() == [0, 1]
    assert single.mean_path_length == multi.mean_path_length == 1
    assert multi.path("a") == multi.path("b") == multi.path("all") == (0,)
    for tree in (single, multi):
        assert tree_from_json(tree.to_json(), "t") == tree
    with pytest.raises(InputError, match="'all'"):
        single_tree(["all", "b"])


def test_a_file_needs_a_single_root(tmp_path: Path) -> None:
    path = tmp_path / "tree.json"
    path.write_text(as_json())
    assert read_tree(path).path("booking") == (2, 5, 6)
    path.write_text(single_tree(["a", "b"]).to_json())
    with pytest.raises(InputError, match=r"tree\.json: has several roots"):
        read_tree(path)
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"tree\.json"):
        read_tree(path)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", "JSON"),
        ('{"nodes": [{"name": "a", "parent": null}], "domains": {"a": "a"}, "more": 1}', "'more'"),
        ('{"nodes": [{"name": "a", "parent": 0}], "domains": {"a": "a"}}', "nodes: 0: parent"),
        ('{"nodes": [{"name": "a", "parent": null}, {"name": "a", "parent": null}], "domains": {"a": "a"}}', "nodes: "),
        (as_json({"a b": None}), "nodes: 0: name: "),
        (as_json({"none": None}), "'none'"),
        (as_json({**PARENTS, "root": "yelp"}), "nodes: frontiers: "),
        (as_json(domains={**DOMAINS, "x": "science"}), "domains: x: "),
        (as_json(domains={**DOMAINS, "booking": "yelp"}), "domains: booking: "),
        (as_json({**PARENTS, "law": "root"}), "leaf 'law'"),
    ],
)
def test_bad_trees_are_refused_in_one_line(text: str, place: str) -> None:
    with pytest.raises(InputError, match=rf"^my\.json: .*{place}[^\n]*$"):
        tree_from_json(text, "my.json")


TREE = tree_from_json(as_json({"root": None, "a": "root", "b": "a", "leaf": "a"}, {"news": "b", "talks": "leaf"}), "t")


def test_names_of_domains_and_nodes() -> None:
    assert names_of_paths(" news, a , leaf,", TREE) == ["news", "a", "leaf"]
    assert names_of_paths("all", TREE) == ["b", "leaf"]
    assert names_of_paths("none", TREE) == []
    assert names_of_paths("all", multi_tree(["news"])) == ["all"]
    for spec in ("news,stars", ","):
        with pytest.raises(InputError, match=spec):
            names_of_paths(spec, TREE, "news")


def test_a_file_of_paths_gives_each_domain_its_paths(tmp_path: Path) -> None:
    path = tmp_path / "paths.json"
    path.write_text(json.dumps({"blogs": ["leaf", "b"], "tales": {"leaf": 3, "b": 1.5}}))
    assert names_of_paths(str(path), TREE, "blogs") == ["leaf", "b"]
    assert names_of_paths(str(path), TREE, "tales") == {"leaf": 3, "b": 1.5}
    for domain in ("news", None):  # not in the file; typed text
        with pytest.raises(InputError, match=r"paths\.json"):
            names_of_paths(str(path), TREE, domain)


@pytest.mark.parametrize("paths", ["leaf", [1], [], {}, {"leaf": 0}, {"leaf": True}, {"leaf": 1e999}, ["stars"]])
def test_bad_files_are_one_line(tmp_path: Path, paths: object) -> None:
    path = tmp_path / "paths.json"
    path.write_text(json.dumps({"blogs": paths}))
    with pytest.raises(InputError, match=rf"^--paths '?{path}[^\n]*$"):
        names_of_paths(str(path), TREE, "blogs")
