"""What the hierarchical adapter model promises beyond what every model does; generation is the task's tests' matter."""

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests import toy, toy_text
from tests.toy_text import DOMAINS, NODES, TREE


def make_model(text: Path, tree: dict | None = None, *words: str, seed: int = 1) -> Any:
    options = [] if tree is None else ["--tree", str(toy_text.write_tree(text.parent / "tree.json", tree))]
    model = toy.make_model(*toy_text.make_task(text, *options, *words), seed)
    toy.randomise_adapters(model)
    return model


def scores(model: Any, domain: str) -> Tensor:
    tokens = torch.randint(4, 34, (4, 9), generator=torch.Generator().manual_seed(3))
    return model(tokens, node_weights=torch.from_numpy(model.tree.path_weights([domain])).unsqueeze(0))[0]


def test_baselines_are_other_trees(text: Path) -> None:
    single = make_model(text, TREE, "--adapters", "single")
    assert (single.tree.names, single.tree.parents) == (tuple(DOMAINS), (None, None, None))
    multi = make_model(text, TREE, "--adapters", "multi", "--bottleneck-dim", "8")
    assert len(multi.tree.names) == 1
    assert multi.banks[0].bottleneck_dim == 21  # 8 for each of 3, 3 and 2 nodes on a path
    assert make_model(text, None, "--adapters", "single").tree.names == tuple(DOMAINS)


def test_a_grown_tree_leaves_other_domains_as_they_are(text: Path) -> None:
    grown = copy.deepcopy(TREE)
    grown["nodes"].insert(1, {"name": "chem", "parent": "root"})  # rows move
    grown["domains"]["chem"] = "chem"
    model, larger = make_model(text, TREE), make_model(text, grown, seed=7)
    larger.load_state_dict(copy.deepcopy(model.state_dict()), strict=True)
    assert all(torch.equal(scores(model, domain), scores(larger, domain)) for domain in DOMAINS)


def test_train_nodes_freezes_the_shared_norms_too(text: Path) -> None:
    model = make_model(text, TREE, "--train-nodes", "sub,science")
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    numbers = [list(NODES).index(name) for name in ("sub", "science")]
    kinds = ("down_weight", "down_bias", "up_weight", "up_bias")
    assert trained == {
        f"decoder.layers.{n}.adapter.bank.nodes.{kind}.{node}" for n in (0, 1) for kind in kinds for node in numbers
    }
