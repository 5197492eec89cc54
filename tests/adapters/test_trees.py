"""The verbs on trees: a domain goes with the nodes that are its own, and comes as a leaf of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from fairseq import options
from omegaconf import OmegaConf

from fairseq_ext.adapters.domains import add_domain, remove_domain, rename_domain
from fairseq_ext.adapters.files import export_adapters
from fairseq_ext.adapters.system import System
from fairseq_ext.inputs.errors import InputError
from tests import toy
from tests.models.test_transformer_lm_hier_adapter import NODES, TREE, make_model, randomise, write_tree

HISTORY = {"num_updates": 1, "best_loss": 1.0, "criterion_name": "", "optimizer_name": ""}


def write_checkpoint(path: Path, model: torch.nn.Module, arch: str, *extra: str) -> Path:
    parser = options.get_training_parser()
    line = ["data", "--arch", arch, "--optimizer", "adam", "--task", "language_modeling", *extra]
    config = toy.composed(options.parse_args_and_arch(parser, [*line, "--tokens-per-sample", "64"]))
    state = {"args": None, "cfg": OmegaConf.to_container(config, resolve=True, enum_to_str=True)}
    if hasattr(model, "tree"):
        state["cfg"]["model"] |= {"tree_json": model.tree.to_json(), "bottleneck_dim": 16}
    torch.save({**state, "model": model.state_dict(), "optimizer_history": [HISTORY], "extra_state": {}}, path)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``tree.pt``, hierarchical adapters."""
    folder = tmp_path_factory.mktemp("trees")
    tree = write_tree(folder / "tree.json", TREE)
    model = randomise(make_model(tree=tree))
    write_checkpoint(folder / "tree.pt", model, "transformer_lm_hier_adapter_tiny", "--tree", str(tree))
    return folder


def same_rows(one: System, other: System, names: set[str]) -> bool:
    return all(torch.equal(row, other.rows(name)[key]) for name in names for key, row in one.rows(name).items())


def test_a_domain_goes_with_its_own_nodes(models: Path, tmp_path: Path) -> None:
    whole = System.read(models / "tree.pt")
    without = remove_domain(models / "tree.pt", "bio", tmp_path / "less.pt")
    assert without.tree is not None
    assert set(without.names) == NODES.keys() - {"bio", "science"}
    assert without.tree.path("books") == tuple(map(without.names.index, ("books", "reviews", "root")))
    assert same_rows(without, whole, set(without.names))
    with pytest.raises(InputError, match="stay in their model"):
        export_adapters(models / "tree.pt", ["books"], tmp_path / "books.safetensors")


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
