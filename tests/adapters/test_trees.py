"""The verbs on trees: a domain goes with the nodes that are its own, and comes with those on its path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fairseq_ext.adapters.domains import add_domain, remove_domain, rename_domain
from fairseq_ext.adapters.files import attach_adapters, export_adapters
from fairseq_ext.adapters.system import System
from fairseq_ext.inputs.errors import InputError
from tests import toy, toy_text
from tests.adapters.test_files import assert_same_state

NODES = {"root": None, "reviews": "root", "science": "root", "books": "reviews", "films": "reviews", "bio": "science"}
TREE = {
    "nodes": [{"name": name, "parent": parent} for name, parent in NODES.items()],
    "domains": {name: name for name in ("bio", "books", "films")},
}


def write_checkpoint(path: Path, model: torch.nn.Module, arch: str, *extra: str) -> Path:
    words = ["--task", "language_modeling", "--arch", arch, "--optimizer", "adam", "--tokens-per-sample", "64"]
    args = toy.parsed(path.parent, *words, *extra)
    if hasattr(model, "tree"):
        args.tree_json, args.bottleneck_dim = model.tree.to_json(), 16
    return toy.write_checkpoint(path, args, model)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``tree.pt``, hierarchical adapters, and ``base.pt``, what they are on."""
    folder = tmp_path_factory.mktemp("trees")
    text, tree = toy_text.make_text(folder), toy_text.write_tree(folder / "tree.json", TREE)
    model = toy.make_model(*toy_text.make_task(text, "--tree", str(tree)))
    toy.randomise_adapters(model)
    base = toy.make_model(*toy_text.make_task(text, arch=toy_text.PLAIN))
    base.load_state_dict({key: model.state_dict()[key] for key in base.state_dict()})
    write_checkpoint(folder / "tree.pt", model, "transformer_lm_hier_adapter_tiny", "--tree", str(tree))
    write_checkpoint(folder / "base.pt", base, "transformer_lm_tiny")
    return folder


def same_rows(one: System, other: System, names: set[str]) -> bool:
    return all(torch.equal(row, other.rows(name)[key]) for name in names for key, row in one.rows(name).items())


@pytest.mark.parametrize("as_folder", [False, True], ids=["file", "folder"])
def test_all_nodes_put_on_the_base_are_the_model(models: Path, tmp_path: Path, as_folder: bool) -> None:
    output = tmp_path / ("files" if as_folder else "all.safetensors")
    files = export_adapters(models / "tree.pt", [], output)
    whole = System.read(models / "tree.pt")
    # Of files of single domains, the inner nodes come with each.
    attached = attach_adapters(models / "base.pt", files, tmp_path / "out.pt")
    assert_same_state(System.read(tmp_path / "out.pt"), whole)
    assert attached.tree == whole.tree
    assert System.read(tmp_path / "out.pt").kind == whole.kind


def test_a_domain_goes_with_its_own_nodes_and_comes_back(models: Path, tmp_path: Path) -> None:
    whole = System.read(models / "tree.pt")
    without = remove_domain(models / "tree.pt", "bio", tmp_path / "less.pt")
    assert without.tree is not None
    assert set(without.names) == NODES.keys() - {"bio", "science"}
    assert without.tree.path("books") == tuple(map(without.names.index, ("books", "reviews", "root")))
    assert same_rows(without, whole, set(without.names))
    [file] = export_adapters(models / "tree.pt", ["bio"], tmp_path / "bio.safetensors")
    with pytest.raises(InputError, match="has an adapter 'bio', and there is one of that name"):
        attach_adapters(models / "tree.pt", [file], tmp_path / "x.pt")
    attach_adapters(tmp_path / "less.pt", [file], tmp_path / "again.pt")
    assert_same_state(System.read(tmp_path / "again.pt"), whole)


def test_a_new_leaf(models: Path, tmp_path: Path) -> None:
    whole = System.read(models / "tree.pt")
    add_domain(whole, "poems", "books", parent="reviews").write(tmp_path / "more.pt")
    more = System.read(tmp_path / "more.pt")
    assert more.tree is not None
    assert more.names == (*whole.names, "poems")
    assert [more.names[row] for row in more.tree.path("poems")] == ["poems", "reviews", "root"]
    assert same_rows(whole, more, set(whole.names))
    books = whole.rows("books")
    assert all(torch.equal(row, books[key]) for key, row in more.rows("poems").items())
    fresh = add_domain(whole, "poems", "nothing", parent="science").rows("poems")
    assert not fresh["decoder.layers.1.adapter.bank.up_weight"].any()


def test_another_name(models: Path, tmp_path: Path) -> None:
    rename_domain(models / "tree.pt", "books", "novels", tmp_path / "renamed.pt")
    renamed = System.read(tmp_path / "renamed.pt")
    assert renamed.domains == ("bio", "films", "novels")
    assert json.loads(renamed.options["tree_json"])["domains"]["novels"] == "novels"
    books = System.read(models / "tree.pt").rows("books")
    assert all(torch.equal(row, books[key]) for key, row in renamed.rows("novels").items())
    with pytest.raises(InputError, match="has 'reviews' already"):
        rename_domain(models / "tree.pt", "books", "reviews", tmp_path / "x.pt")
