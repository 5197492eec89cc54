from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairseq_ext.domains.domain_tree import DomainTree, multi_tree
from fairseq_ext.domains.paths import names_of_paths
from fairseq_ext.inputs.errors import InputError

TREE = DomainTree(("root", "a", "b", "leaf"), (None, 0, 1, 1), {"news": 2, "talks": 3})


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("news", ["news"]),
        (" b , leaf,", ["b", "leaf"]),
        ("a", ["a"]),
        ("all", ["b", "leaf"]),
        ("none", []),
    ],
)
def test_names_of_domains_and_nodes(spec: str, names: list[str]) -> None:
    assert names_of_paths(spec, TREE) == names


def test_all_of_a_multi_domain_adapter_is_that_adapter() -> None:
    assert names_of_paths("all", multi_tree(["news"])) == ["all"]


def test_a_file_gives_each_domain_its_own(tmp_path: Path) -> None:
    path = tmp_path / "paths.json"
    path.write_text(json.dumps({"blogs": ["leaf", "b"], "tales": ["b"]}))
    assert names_of_paths(str(path), TREE, "blogs") == ["leaf", "b"]
    assert names_of_paths(str(path), TREE, "tales") == ["b"]
    path.write_text(json.dumps({"blogs": {"leaf": 3, "b": 1.5}}))
    assert names_of_paths(str(path), TREE, "blogs") == {"leaf": 3, "b": 1.5}
    with pytest.raises(InputError, match=r"paths\.json: no paths for domain news"):
        names_of_paths(str(path), TREE, "news")
    with pytest.raises(InputError, match="typed text is of no domain"):
        names_of_paths(str(path), TREE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "holds no object"),
        ('{"blogs": "leaf"}', "'leaf' is no list of names"),
        ('{"blogs": [1]}', "is no list of names"),
        ('{"blogs": []}', "no name"),
        ('{"blogs": {"leaf": 0}}', "no object of names and numbers above zero"),
        ('{"blogs": {"leaf": true}}', "no object of names and numbers above zero"),
        ('{"blogs": {"stars": 2}}', "'stars': no domain or node"),
        ('{"blogs": ["stars"]}', "'stars': no domain or node"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "paths.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        names_of_paths(str(path), TREE, "blogs")
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("spec", "message"), [("news,stars", "--paths news,stars: 'stars'"), (",", "no name")])
def test_bad_names(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        names_of_paths(spec, TREE, "news")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.json: not found"):
        names_of_paths(str(tmp_path / "no.json"), TREE, "news")
