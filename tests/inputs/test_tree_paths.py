"""What ``--paths`` understands: names, a file, and what of it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairseq_ext.inputs.domain_tree import DomainTree, multi_tree
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.tree_paths import names_of_paths

TREE = DomainTree(("root", "a", "b", "leaf"), (None, 0, 1, 1), {"news": 2, "talks": 3})


def test_names_of_domains_and_nodes() -> None:
    assert names_of_paths(" news, a , leaf,", TREE) == ["news", "a", "leaf"]
    assert names_of_paths("all", TREE) == ["b", "leaf"]
    assert names_of_paths("none", TREE) == []
    assert names_of_paths("all", multi_tree(["news"])) == ["all"]
    for spec in ("news,stars", ","):
        with pytest.raises(InputError, match=spec):
            names_of_paths(spec, TREE, "news")


def test_a_file_gives_each_domain_its_own(tmp_path: Path) -> None:
    path = tmp_path / "paths.json"
    path.write_text(json.dumps({"blogs": ["leaf", "b"], "tales": {"leaf": 3, "b": 1.5}}))
    assert names_of_paths(str(path), TREE, "blogs") == ["leaf", "b"]
    assert names_of_paths(str(path), TREE, "tales") == {"leaf": 3, "b": 1.5}
    for domain in ("news", None):  # not in the file; typed text
        with pytest.raises(InputError, match=r"paths\.json"):
            names_of_paths(str(path), TREE, domain)
    with pytest.raises(InputError, match=r"no\.json: not found"):
        names_of_paths(str(tmp_path / "no.json"), TREE, "news")


@pytest.mark.parametrize("paths", ["leaf", [1], [], {}, {"leaf": 0}, {"leaf": True}, {"leaf": 1e999}, ["stars"]])
def test_bad_files_are_one_line(tmp_path: Path, paths: object) -> None:
    path = tmp_path / "paths.json"
    path.write_text(json.dumps({"blogs": paths}))
    with pytest.raises(InputError, match=rf"^--paths '?{path}[^\n]*$"):
        names_of_paths(str(path), TREE, "blogs")
