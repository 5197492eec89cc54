"""The verbs on trees: a domain goes with the nodes that are its own, and comes with those on its path."""

from pathlib import Path

import pytest
import torch

from fairseq_ext.adapters.domains import add_domain, remove_domain, rename_domain
from fairseq_ext.adapters.files import attach_adapters, export_adapters
from fairseq_ext.adapters.system import System
from fairseq_ext.base.errors import InputError
from tests import toy, toy_text
from tests.adapters.test_domains import assert_same_rows
from tests.adapters.test_files import assert_same_state

NODES = {"root": None, "reviews": "root", "science": "root", "books": "reviews", "films": "reviews", "bio": "science"}
TREE = {
    "nodes": [{"name": name, "parent": parent} for name, parent in NODES.items()],
    "domains": {name: name for name in ("bio", "books", "films")},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``tree.pt``, hierarchical adapters, and ``base.pt``, what they are on."""
    folder = tmp_path_factory.mktemp("trees")
    text, tree = toy_text.make_text(folder), toy_text.write_tree(folder / "tree.json", TREE)
    model = toy.make_model(*toy_text.make_task(text, "--tree", str(tree)))
    toy.randomise_adapters(model)
    base = toy.make_model(*toy_text.make_task(text, arch=toy_text.PLAIN))
    base.load_state_dict({key: model.state_dict()[key] for key in base.state_dict()})
    words = ["--task", "language_modeling", "--optimizer", "adam", "--tokens-per-sample", "64", "--arch"]
    toy.write_checkpoint(folder / "base.pt", toy.parsed(folder, *words, toy_text.PLAIN), base)
    args = toy.parsed(folder, *words, toy_text.HIER, "--tree", str(tree))
    args.tree_json, args.bottleneck_dim = model.tree.to_json(), 16
    toy.write_checkpoint(folder / "tree.pt", args, model)
    return folder


def same_rows(one: System, other: System, names: set[str]) -> bool:
    return all(torch.equal(row, other.rows(name)[key]) for name in names for key, row in one.rows(name).items())


@pytest.mark.parametrize("as_folder", [False, True], ids=["file", "folder"])
def test_all_nodes_put_on_the_base_are_the_model(models: Path, tmp_path: Path, as_folder: bool) -> None:
    output = tmp_path / ("files" if as_folder else "all.safetensors")
    files = export_adapters(models / "tree.pt", [], output)
    # Of files of single domains, the inner nodes come with each.
    attach_adapters(models / "base.pt", files, tmp_path / "out.pt")
    attached, whole = System.read(tmp_path / "out.pt"), System.read(models / "tree.pt")
    assert_same_state(attached, whole)
    assert (attached.tree, attached.kind) == (whole.tree, whole.kind)


def test_a_domain_goes_with_its_own_nodes_and_comes_back(models: Path, tmp_path: Path) -> None:
    whole = System.read(models / "tree.pt")
    without = remove_domain(models / "tree.pt", "bio", tmp_path / "less.pt")
    assert set(without.names) == NODES.keys() - {"bio", "science"}
    assert without.tree.path("books") == tuple(map(without.names.index, ("books", "reviews", "root")))
    assert same_rows(without, whole, set(without.names))
    [file] = export_adapters(models / "tree.pt", ["bio"], tmp_path / "bio.safetensors")
    with pytest.raises(InputError, match="adapter 'bio' already exists"):
        attach_adapters(models / "tree.pt", [file], tmp_path / "x.pt")
    attach_adapters(tmp_path / "less.pt", [file], tmp_path / "again.pt")
    assert_same_state(System.read(tmp_path / "again.pt"), whole)


def test_adding_a_leaf(models: Path) -> None:
    whole = System.read(models / "tree.pt")
    more = add_domain(whole, "poems", "books", parent="reviews")
    assert more.names == (*whole.names, "poems")
    assert [more.names[row] for row in more.tree.path("poems")] == ["poems", "reviews", "root"]
    assert same_rows(whole, more, set(whole.names))
    assert_same_rows(more, whole, "poems", "books")
    fresh = add_domain(whole, "poems", "nothing", parent="science").rows("poems")
    assert not fresh["decoder.layers.1.adapter.bank.up_weight"].any()


def test_renaming_a_leaf(models: Path, tmp_path: Path) -> None:
    rename_domain(models / "tree.pt", "books", "novels", tmp_path / "renamed.pt")
    renamed = System.read(tmp_path / "renamed.pt")
    assert renamed.domains == ("bio", "films", "novels")
    assert renamed.tree.names[renamed.tree.domains["novels"]] == "novels"
    assert_same_rows(renamed, System.read(models / "tree.pt"), "novels", "books")
    with pytest.raises(InputError, match="already has 'reviews'"):
        rename_domain(models / "tree.pt", "books", "reviews", tmp_path / "x.pt")
