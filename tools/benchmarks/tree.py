"""Compare hierarchical adapters with the bare language model: scoring and training on random weights and text.

A path of T nodes should take little more time than its arithmetic, for any size of the tree. Defaults are the paper's
many-domain setup (§4.3): GPT-2's smallest size, T = 8, b = 64, blocks of 800 tokens, one and two paths. A training step
trains the whole model over one path, or only a single layer's adapters on given states and gradients: forward,
backward, --clip-norm 1 and Adam. The peak is the memory of a step, without the weights and Adam's state of the nodes so
far.

Many domains are the leaves of one binary tree. A block of each is scored over its path, and selects one and two paths
by some or all of its tokens, among clusters of 100 dimensions, either separately or all at once. The peak is the memory
without the weights.
"""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.shared.cases import Case, Figures, MissingError, Ready
from benchmarks.shared.models import make_dictionary

UNIT = "tokens/s"
_BARE = "bare model"
_PATHS = {"1 path": ["a"], "2 paths": ["a", "b"]}
_models_of_domains: list[Any] = []  # a single model, shared by all cases of many domains


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", default="gpt2", choices=["gpt2", "small", "tiny"], help="architecture preset")
    parser.add_argument("--vocabulary", type=int, default=50257, help="vocabulary size")
    parser.add_argument("--depth", type=int, default=8, help="nodes per path")
    parser.add_argument("--bottleneck-dim", type=int, default=64, help="inner width of a node's adapter")
    parser.add_argument("--nodes", type=int, nargs="+", default=[15, 49, 200, 599], help="sizes of the trees")
    parser.add_argument("--tokens", type=int, default=800, help="tokens per block")
    parser.add_argument("--domains", type=int, default=300, help="leaves of the tree with many domains")
    parser.add_argument("--domain-tokens", type=int, default=64, help="tokens per block of a domain")
    parser.add_argument(
        "--choose-tokens", type=int, default=16, help="number of first tokens for the additional choice of paths"
    )


def cases(options: argparse.Namespace) -> list[Case]:
    found = [Case(_BARE, partial(_prepare, options, options.nodes[0], []), options.tokens, group="scoring")]
    for size in options.nodes:
        for name, paths in _PATHS.items():
            prepare = partial(_prepare, options, size, paths)
            found.append(Case(f"{name}, {size} nodes", prepare, options.tokens, (_BARE,), group="scoring"))
    for group, prepare_step in (("training", _prepare_step), ("training one layer", _prepare_layer_step)):
        names = [f"{group}, {size} nodes" for size in options.nodes]
        for name, size in zip(names, options.nodes, strict=True):
            prepare = partial(prepare_step, options, size)
            first = () if name == names[0] else (names[0],)
            found.append(Case(name, prepare, options.tokens, first, group))
    return [*found, *_domain_cases(options)]


def _domain_cases(options: Namespace) -> list[Case]:
    group = "many domains"
    works = {"own paths": _score_domains, "choices one by one": _choose, "choices at once": _choose_at_once}
    names = {f"{options.domains} domains, {name}": work for name, work in works.items()}
    first = next(iter(names))
    amount = options.domains * options.domain_tokens
    return [
        Case(name, partial(_prepare_domains, options, work), amount, () if name == first else (first,), group)
        for name, work in names.items()
    ]


def _prepare(options: Namespace, size: int, paths: list[str], folder: Path) -> Ready:
    """Prepare scoring of one block; the bare model is the same model without a path."""
    import torch

    torch.manual_seed(2)
    tokens = torch.randint(4, options.vocabulary, (1, options.tokens))
    tree = _tree_with_paths(options.depth, size)
    model = _make_model(tree, options)
    weights = torch.from_numpy(tree.path_weights(paths))[None]

    def run() -> None:
        with torch.no_grad():
            model(tokens, node_weights=weights)

    share = _flops_per_token(model, int(weights.count_nonzero()), options) / _flops_per_token(model, 0, options)
    return Ready(run, {"times the FLOPs": share})


def _prepare_step(options: Namespace, size: int, folder: Path) -> Ready:
    """Prepare an update of the adapters on one path of the whole model."""
    import torch
    import torch.nn.functional as F

    tree = _tree_with_paths(options.depth, size)
    model = _make_model(tree, options).train()
    torch.manual_seed(2)
    tokens = torch.randint(4, options.vocabulary, (1, options.tokens))
    weights = torch.from_numpy(tree.path_weights(["a"]))[None]

    def loss() -> Any:
        return F.cross_entropy(model(tokens, node_weights=weights)[0].flatten(0, 1), tokens[0], reduction="sum")

    return _ready_step(model, loss)


def _prepare_layer_step(options: Namespace, size: int, folder: Path) -> Ready:
    """Prepare an update of the adapters of one layer, whose inputs need no gradient."""
    import torch

    width = 768 if options.size == "gpt2" else 192
    bank = _make_bank(width, options.bottleneck_dim, size)
    torch.manual_seed(2)
    states, grad = torch.randn(2, options.tokens, 1, width)
    active, weights = list(range(options.depth)), torch.full((options.depth,), 1 / options.depth)
    model = Namespace(banks=[bank], trained_rows=range(size), parameters=bank.parameters)
    return _ready_step(model, lambda: (bank(states, weights, active) * grad).sum())


def _make_bank(embed_dim: int, bottleneck_dim: int, num_nodes: int) -> Any:
    try:
        from fairseq_ext.modules.node_bank import NodeBank
    except ModuleNotFoundError:  # older code: trees used the other adapters' bank
        from fairseq_ext.modules.adapter_bank import AdapterBank

        return AdapterBank(embed_dim, bottleneck_dim, num_nodes, shared_norm=True)
    return NodeBank(embed_dim, bottleneck_dim, num_nodes)


def _ready_step(model: Any, loss: Callable[[], Any]) -> Ready:
    from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig

    from fairseq_ext.tasks.multi_domain_language_modeling import MultiDomainLanguageModelingTask

    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = FairseqAdam(FairseqAdamConfig(lr=[1e-3], adam_betas="(0.9, 0.999)", tpu=False), trained)
    # Only methods around a step are needed; the constructor would need data.
    task = MultiDomainLanguageModelingTask.__new__(MultiDomainLanguageModelingTask)

    def step() -> None:
        optimizer.backward(loss())
        optimizer.clip_grad_norm(1.0)
        task.optimizer_step(optimizer, model, 0)

    def run() -> Figures:
        optimizer.zero_grad()
        return _with_peak(step)

    return Ready(run, _weights_of(model))


def _weights_of(model: Any) -> Figures:
    return {"weights, MiB": sum(p.numel() for p in model.parameters()) / 2**18}


def _with_peak(work: Callable[[], None]) -> Figures:
    """Run the work, and return its peak memory."""
    with suppress(OSError):  # writing 5 resets the peak on Linux
        Path("/proc/self/clear_refs").write_text("5")
    before = _resident_mib("VmRSS")
    work()
    return {"peak": _resident_mib("VmHWM") - before}


def _resident_mib(kind: str) -> float:
    """Return this process's current memory (VmRSS) or peak (VmHWM); 0 if the system does not provide it."""
    with suppress(OSError):
        found = re.search(rf"^{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0
    return 0.0


def _tree_with_paths(depth: int, nodes: int) -> Any:
    """Return a tree with two paths of ``depth`` nodes that split below the root, filled up with leaves at the root."""
    from fairseq_ext.inputs.domain_tree import DomainTree

    names = ["root"]
    parents: list[int | None] = [None]
    for branch in ("a", "b"):
        for level in range(1, depth):
            names.append(f"{branch}{level}")
            parents.append(0 if level == 1 else len(names) - 2)
    leaves = {"a": depth - 1, "b": 2 * depth - 2}
    while len(names) < nodes:
        leaves[f"leaf{len(names)}"] = len(names)
        names.append(f"leaf{len(names)}")
        parents.append(0)
    return DomainTree(tuple(names), tuple(parents), leaves)


def _binary_tree(num_leaves: int) -> Any:
    from fairseq_ext.inputs.domain_tree import DomainTree

    names = [f"n{node}" for node in range(2 * num_leaves - 1)]
    parents = [None, *((node - 1) // 2 for node in range(1, len(names)))]
    return DomainTree(tuple(names), tuple(parents), {names[n]: n for n in range(num_leaves - 1, len(names))})


def _prepare_domains(options: Namespace, work: Callable[..., None], folder: Path) -> Ready:
    """Prepare a block for every leaf of a binary tree; all cases share a model."""
    import torch

    if not _models_of_domains:
        _models_of_domains.append(_make_model(_binary_tree(options.domains), options))
    [model] = _models_of_domains
    torch.manual_seed(2)
    blocks = torch.randint(4, options.vocabulary, (options.domains, 1, options.domain_tokens))
    _write_clusters(folder, list(model.tree.leaves), model.decoder.embed_dim)
    return Ready(lambda: _with_peak(partial(work, options, model, blocks, folder)), _weights_of(model))


def _write_clusters(folder: Path, names: list[str], width: int) -> None:
    import numpy as np

    from fairseq_ext.inputs.path_chooser import GaussianClusters, PathChooser

    dimensions, draw = min(100, width), np.random.default_rng(3)
    weights, means = np.full(len(names), 1 / len(names)), draw.normal(size=(len(names), dimensions))
    covariances = np.tile(np.eye(dimensions), (len(names), 1, 1))
    projection = draw.normal(size=(width, dimensions))
    PathChooser(GaussianClusters(np.zeros(width), projection, weights, means, covariances), tuple(names)).save(folder)


def _score_domains(options: Namespace, model: Any, blocks: Any, folder: Path) -> None:
    import torch

    with torch.no_grad():
        for leaf, block in zip(model.tree.leaves, blocks, strict=True):
            model(block, node_weights=torch.from_numpy(model.tree.path_weights([leaf]))[None])


def _choose(options: Namespace, model: Any, blocks: Any, folder: Path, **shared: Any) -> None:
    from fairseq_ext.tasks.sequence_paths import SequencePaths

    given = [{"num_paths": k, "num_tokens": n} for n in (0, options.choose_tokens) for k in (1, 2)]
    paths = [SequencePaths.load(folder, model, padding_idx=1, **each, **shared) for each in given]
    for block in blocks:
        for each in paths:
            each(block)


def _choose_at_once(options: Namespace, model: Any, blocks: Any, folder: Path) -> None:
    from fairseq_ext.tasks import sequence_paths

    if not hasattr(sequence_paths, "StatesOnce"):
        raise MissingError("choices that share what the base has read")
    states = sequence_paths.StatesOnce((0, options.choose_tokens))
    _choose(options, model, blocks, folder, states=states)


def _make_model(tree: Any, options: Namespace) -> Any:
    import torch
    from fairseq import options as fairseq_options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    import fairseq_ext
    from fairseq_ext.models.transformer_lm_hier_adapter import TransformerLMHierAdapterModel

    fairseq_ext.install()
    torch.manual_seed(1)
    dictionary = make_dictionary(options.vocabulary)
    words = ["data", "--task", "language_modeling", "--optimizer", "adam", "--tokens-per-sample", "1024"]
    words += ["--arch", f"transformer_lm_hier_adapter_{options.size}", "--bottleneck-dim", str(options.bottleneck_dim)]
    args = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), words)
    config = convert_namespace_to_omegaconf(args).model
    config.tree_json = tree.to_json()
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary, domains=[])
    return TransformerLMHierAdapterModel.build_model(config, task).eval()


def _flops_per_token(model: Any, nodes: int, options: Namespace) -> float:
    """Return multiplications and additions of a forward pass (Kaplan et al. 2020; hierarchical adapters §2.4)."""
    decoder = model.decoder
    dense = sum(p.numel() for n, p in decoder.layers.named_parameters() if p.dim() == 2 and ".adapter." not in n)
    attention = len(decoder.layers) * options.tokens * decoder.embed_dim  # each token sees half of its block
    output = options.vocabulary * decoder.embed_dim
    adapters = 2 * len(decoder.layers) * decoder.embed_dim * model.banks[0].bottleneck_dim * nodes
    return 2 * (dense + attention + output + adapters)
