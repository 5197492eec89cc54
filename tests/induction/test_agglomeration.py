"""From counts to a tree: domains settle, empty clusters go, near clusters are joined."""

from __future__ import annotations

import numpy as np
import pytest

from fairseq_ext.domains.domain_tree import tree_from_json
from fairseq_ext.induction.agglomeration import count_choices, link, name_leaves, settle_domains, tree_from_linkage
from fairseq_ext.inputs.errors import InputError


def test_domains_settle_where_most_of_their_sequences_are() -> None:
    counts = np.array([[1, 0, 9, 0], [5, 0, 5, 0], [0, 3, 7, 0], [0, 2, 1, 1]])
    # b is undecided and goes to the first; cluster 3 has a sequence, but wins no domain.
    assert settle_domains(counts, ["a", "b", "c", "d"]) == {0: ["b"], 1: ["d"], 2: ["a", "c"]}


def test_counts() -> None:
    choices, labels = np.array([0, 2, 2, 1]), np.array([0, 0, 0, 1])
    assert count_choices(choices, labels, (2, 4)).tolist() == [[1, 0, 2, 0], [0, 1, 0, 0]]


def test_one_cluster_for_all_is_no_tree() -> None:
    with pytest.raises(InputError, match=r"all domains \(a, b\) fall into one cluster"):
        settle_domains(np.array([[0, 4], [1, 3]]), ["a", "b"])
    with pytest.raises(InputError, match="b: no sequences"):
        settle_domains(np.array([[0, 4], [0, 0]]), ["a", "b"])


def test_the_tree_of_known_distances() -> None:
    # Clusters on a line, at 0, 1, 4 and 10: the first two are joined at 1, the third at 3.5, the last at 8.33.
    places = np.array([0.0, 1.0, 4.0, 10.0])
    linkage = link(np.abs(places[:, None] - places))
    np.testing.assert_allclose(linkage[:, 2], [1, 3.5, 25 / 3])
    settled = {0: ["w"], 3: ["x"], 4: ["y", "z"], 7: ["root"]}
    tree = tree_from_linkage(linkage, settled, name_leaves(settled))
    assert tree_from_json(tree.to_json(), "t") == tree
    assert [tree.names[row] for row in tree.path("w")] == ["w", "node_2", "node_1", "root_"]
    assert [tree.names[row] for row in tree.path("x")] == ["x", "node_2", "node_1", "root_"]
    assert [tree.names[row] for row in tree.path("z")] == ["cluster_4", "node_1", "root_"]
    assert tree.path("y") == tree.path("z") == tree.path("cluster_4")
    # A domain may well be called root.
    assert [tree.names[row] for row in tree.path("root")] == ["root", "root_"]
    assert len(tree.names) == 7
    assert tree.mean_path_length == (4 + 4 + 3 + 3 + 2) / 5


def test_two_clusters_are_a_tree() -> None:
    settled = {1: ["a"], 2: ["b"]}
    tree = tree_from_linkage(link(np.array([[0.0, 2.0], [2.0, 0.0]])), settled, name_leaves(settled))
    assert tree.names == ("root", "a", "b")
    assert tree.parents == (None, 0, 0)
