"""What the hierarchical adapter model promises."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import options as fairseq_options
from fairseq.data import Dictionary
from fairseq.models.transformer_lm import TransformerLanguageModel
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.transformer_lm_hier_adapter import TransformerLMHierAdapterModel
from tests import toy

NODES = {"root": None, "reviews": "root", "science": "root", "books": "reviews", "films": "reviews", "bio": "science"}
TREE = {
    "nodes": [{"name": name, "parent": parent} for name, parent in NODES.items()],
    "domains": {name: name for name in ("bio", "books", "films")},
}


@pytest.fixture
def tree_file(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "tree.json", TREE)


def write_tree(path: Path, content: dict) -> Path:
    path.write_text(json.dumps(content))
    return path


def make_task(domains: tuple[str, ...] = ()) -> Any:
    dictionary = Dictionary()
    for n in range(30):
        dictionary.add_symbol(f"w{n}")
    return SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary, domains=list(domains))


def make_config(arch: str = "transformer_lm_hier_adapter_tiny", **options: Any) -> Any:
    """The model's options as fairseq's command line makes them."""
    given = {"tokens_per_sample": 64, "dropout": 0.0, "attention_dropout": 0.0, "task": "language_modeling"} | options
    words = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    args = fairseq_options.parse_args_and_arch(
        fairseq_options.get_training_parser(), ["data", "--arch", arch, "--optimizer", "adam", *words]
    )
    return toy.model_options(args)


def make_model(seed: int = 1, domains: tuple[str, ...] = (), **options: Any) -> Any:
    torch.manual_seed(seed)
    return TransformerLMHierAdapterModel.build_model(make_config(**options), make_task(domains)).eval()


def make_base() -> Any:
    torch.manual_seed(1)
    return TransformerLanguageModel.build_model(make_config("transformer_lm_tiny"), make_task()).eval()


def randomise(model: Any) -> Any:
    torch.manual_seed(2)
    with torch.no_grad():
        for bank in model.banks:
            for parameter in bank.parameters():
                nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture
def model(tree_file: Path) -> Any:
    return randomise(make_model(tree=str(tree_file)))


def tokens_of(rows: int = 4, length: int = 9) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(4, 34, (rows, length), generator=generator)


def weights_of(model: Any, *paths: list[str]) -> Tensor:
    return torch.stack([torch.from_numpy(model.tree.path_weights(names)) for names in paths])


def test_without_a_path_it_is_its_base_exactly(model: Any) -> None:
    base = make_base()
    base.load_state_dict({k: v for k, v in model.state_dict().items() if "adapter" not in k})
    nothing = torch.zeros(1, len(NODES))
    assert torch.equal(base(tokens_of())[0], model(tokens_of(), node_weights=nothing)[0])


def test_generated_scores_equal_forced_ones(model: Any) -> None:
    """Cached decoding, with other paths in every row, follows the beam."""
    dictionary = model.decoder.dictionary
    model.decoder.default_node_weights = weights_of(model, ["books"], ["bio"], ["films", "bio"])
    prompts = tokens_of(3, 4)
    generator = SequenceGenerator([model], dictionary, beam_size=3, max_len_a=0, max_len_b=12)
    sample = {"net_input": {"src_tokens": prompts, "src_lengths": torch.full((3,), 4)}}
    hypotheses = generator.generate([model], sample, prefix_tokens=prompts, bos_token=dictionary.eos())
    for row, (best, *_) in enumerate(hypotheses):
        tokens = best["tokens"]
        forced_input = torch.cat([tokens.new_tensor([dictionary.eos()]), tokens[:-1]])[None]
        weights = model.decoder.default_node_weights[[row]]
        forced = model.get_normalized_probs(model(forced_input, node_weights=weights), log_probs=True)[0]
        scores = forced.gather(1, tokens[:, None]).squeeze(1)
        torch.testing.assert_close(scores, best["positional_scores"], atol=1e-4, rtol=0)


def test_baselines_are_other_trees(tree_file: Path) -> None:
    single = make_model(tree=str(tree_file), adapters="single", bottleneck_dim=8)
    assert single.tree.names == ("bio", "books", "films")
    assert single.tree.parents == (None, None, None)
    multi = make_model(tree=str(tree_file), adapters="multi", bottleneck_dim=8)
    assert len(multi.tree.names) == 1
    assert multi.banks[0].bottleneck_dim == 24  # three nodes on every path
    assert make_model(domains=("a", "b"), adapters="single").tree.names == ("a", "b")
    with pytest.raises(InputError, match="--tree"):
        make_model()


@pytest.mark.parametrize("is_earlier", [False, True])
def test_a_grown_tree_leaves_other_domains_as_they_are(model: Any, tmp_path: Path, is_earlier: bool) -> None:
    """Also from a checkpoint of an earlier version, which called the names otherwise and kept bytes."""
    grown = copy.deepcopy(TREE)
    grown["nodes"].insert(1, {"name": "chem", "parent": "science"})  # rows move
    grown["domains"]["chem"] = "chem"
    larger = make_model(seed=7, tree=str(write_tree(tmp_path / "grown.json", grown)))
    state = copy.deepcopy(model.state_dict())
    if is_earlier:
        state["decoder.node_names"] = state.pop("decoder.adapter_names").to(torch.uint8)
    larger.load_state_dict(state, strict=True)
    for domain in TREE["domains"]:
        before = model(tokens_of(), node_weights=weights_of(model, [domain]))[0]
        assert torch.equal(before, larger(tokens_of(), node_weights=weights_of(larger, [domain]))[0])


def test_train_nodes_freezes_the_shared_norms_too(tree_file: Path) -> None:
    model = make_model(tree=str(tree_file), train_nodes="films,reviews")
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    numbers = [list(NODES).index(name) for name in ("films", "reviews")]
    kinds = ("down_weight", "down_bias", "up_weight", "up_bias")
    assert trained == {
        f"decoder.layers.{n}.adapter.bank.nodes.{kind}.{node}" for n in (0, 1) for kind in kinds for node in numbers
    }
    with pytest.raises(InputError, match="'film'"):
        make_model(tree=str(tree_file), train_nodes="film")
