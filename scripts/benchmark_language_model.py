#!/usr/bin/env python3
"""Speed of hierarchical adapters against the bare language model, on random weights and text.

A path of T nodes should cost little more time than its arithmetic, however large the tree is around it. Every round
times the bare model (the same model over no path), then each tree; the ratios within one run are what to compare,
the seconds depend on the machine. Defaults are the paper's many-domain set-up (§4.3): GPT-2's smallest size, T = 8,
b = 64, blocks of 800 tokens, one and two paths.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.engine.own_python import use_own_python

use_own_python()

import torch
from fairseq import options as fairseq_options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

import fairseq_ext  # noqa: F401  (registers the models)
from fairseq_ext.domains.domain_tree import DomainTree
from fairseq_ext.inputs.errors import run_command
from fairseq_ext.models.transformer_lm_hier_adapter import TransformerLMHierAdapterModel


def tree_with_paths(depth: int, nodes: int) -> DomainTree:
    """Two paths of ``depth`` nodes that part below the root, and leaves at the root to make up the number."""
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


def make_model(tree: DomainTree, options: Namespace) -> Any:
    torch.manual_seed(1)
    dictionary = Dictionary()
    for i in range(options.vocabulary - len(dictionary)):
        dictionary.add_symbol(f"w{i}")
    words = ["data", "--task", "language_modeling", "--optimizer", "adam", "--tokens-per-sample", "1024"]
    words += ["--arch", f"transformer_lm_hier_adapter_{options.size}", "--bottleneck-dim", str(options.bottleneck_dim)]
    args = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), words)
    config = convert_namespace_to_omegaconf(args).model
    config.tree_json = tree.to_json()
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary, domains=[])
    return TransformerLMHierAdapterModel.build_model(config, task)


def flops_per_token(model: Any, nodes: int, options: Namespace) -> float:
    """Multiplications and additions of a forward pass (Kaplan et al. 2020; hierarchical adapters §2.4)."""
    decoder = model.decoder
    dense = sum(p.numel() for n, p in decoder.layers.named_parameters() if p.dim() == 2 and ".adapter." not in n)
    attention = len(decoder.layers) * options.tokens * decoder.embed_dim  # each token sees half of its block
    output = options.vocabulary * decoder.embed_dim
    adapters = 2 * len(decoder.layers) * decoder.embed_dim * model.banks[0].bottleneck_dim * nodes
    return 2 * (dense + attention + output + adapters)


def scoring(model: Any, tokens: torch.Tensor, weights: torch.Tensor) -> Callable[[], None]:
    def run() -> None:
        with torch.no_grad():
            model(tokens, node_weights=weights)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--size", default="gpt2", choices=["gpt2", "small", "tiny"], help="architecture preset")
    parser.add_argument("--vocabulary", type=int, default=50257, help="symbols")
    parser.add_argument("--depth", type=int, default=8, help="nodes of a path")
    parser.add_argument("--bottleneck-dim", type=int, default=64, help="inner width of a node's adapter")
    parser.add_argument("--nodes", type=int, nargs="+", default=[15, 49, 200], help="sizes of the trees")
    parser.add_argument("--tokens", type=int, default=800, help="tokens of a block")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count; one more warms up")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(2)
    tokens = torch.randint(4, options.vocabulary, (1, options.tokens))
    cases: dict[str, tuple[Callable[[], None], float]] = {}
    for size in options.nodes:
        tree = tree_with_paths(options.depth, size)
        model = make_model(tree, options).eval()
        for name, paths in {"no path": [], "1 path": ["a"], "2 paths": ["a", "b"]}.items():
            if paths or not cases:
                weights = torch.from_numpy(tree.path_weights(paths))[None]
                label = f"{name}, {size} nodes" if paths else "bare model"
                flops = flops_per_token(model, int(weights.count_nonzero()), options)
                cases[label] = (scoring(model, tokens, weights), flops)
    times: dict[str, list[float]] = {label: [] for label in cases}
    for turn in range(options.rounds + 1):
        for label, (run, _) in cases.items():
            start = time.perf_counter()
            run()
            if turn:
                times[label].append(time.perf_counter() - start)
        print(f"round {turn} of {options.rounds}", file=sys.stderr)
    bare_flops = cases["bare model"][1]
    print(f"{'':<20}{'tokens/s':>10}{'extra time':>12}{'extra FLOPs':>13}{'ratio':>8}")
    for label, (_, flops) in cases.items():
        extra = statistics.median(t / b for t, b in zip(times[label], times["bare model"], strict=True)) - 1
        share = flops / bare_flops - 1
        figures = f"{extra:>11.1%} {share:>12.1%} {extra / share:>7.2f}" if share else ""
        print(f"{label:<20}{options.tokens / statistics.median(times[label]):>10.0f} {figures}")


if __name__ == "__main__":
    run_command(main)
