#!/usr/bin/env python3
"""Training speed of the ten combinations against a language model on torch's own GRU, of the same size, on random text.

Every round times one update of each model (forward, backward, SGD), one after the other; the ratios within one run are
what to compare, the seconds depend on the machine, which should be idle. Defaults are the paper’s sizes. torch’s GRU is
one call for all steps (cuDNN's on a GPU, and another cell: it resets after the matrix product).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.engine.own_python import use_own_python

use_own_python()

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_ext.inputs.errors import run_command
from fairseq_ext.modules.combinations import COMBINATIONS
from fairseq_ext.modules.domain_adapted_gru import DomainAdaptedGRU


class TorchLanguageModel(nn.Module):
    """Word vectors, torch's GRU and an output layer."""

    def __init__(self, options: argparse.Namespace):
        super().__init__()
        self.embed = nn.Embedding(options.vocabulary, options.embed_dim)
        self.gru = nn.GRU(options.embed_dim, options.hidden_dim)
        self.output = nn.Linear(options.hidden_dim, options.vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.gru(self.embed(tokens))[0])


class CombinedLanguageModel(nn.Module):
    """The same with general-domain word vectors."""

    general: Tensor

    def __init__(self, options: argparse.Namespace, name: str):
        super().__init__()
        self.embed = nn.Embedding(options.vocabulary, options.embed_dim)
        self.register_buffer("general", torch.randn(options.vocabulary, options.embed_dim))
        self.gru = DomainAdaptedGRU(COMBINATIONS[name], options.embed_dim, options.embed_dim, options.hidden_dim)
        self.output = nn.Linear(self.gru.output_dim, options.vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        initial = self.output.weight.new_zeros(2, tokens.size(1), self.gru.hidden_dim)
        return self.output(self.gru(self.embed(tokens), F.embedding(tokens, self.general), initial)[0])


def update_of(model: nn.Module, options: argparse.Namespace) -> Callable[[], None]:
    """One update on T×B random tokens."""
    model.to(options.device).train()
    text = torch.randint(options.vocabulary, (options.length + 1, options.rows), device=options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(text[:-1]).flatten(0, 1), text[1:].flatten()).backward()
        optimizer.step()
        if options.device == "cuda":
            torch.cuda.synchronize()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--embed-dim", type=int, default=300, help="width of word vectors, both kinds")
    parser.add_argument("--hidden-dim", type=int, default=600, help="units")
    parser.add_argument("--vocabulary", type=int, default=10000, help="words")
    parser.add_argument("--rows", type=int, default=20, help="rows of a batch")
    parser.add_argument("--length", type=int, default=40, help="tokens of a row")
    parser.add_argument("--combinations", nargs="*", default=list(COMBINATIONS), help="those to time")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count; one more warms up")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--matmul-precision", default="highest", help="as in the tasks' option of this name")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision(options.matmul_precision)
    models = {"nn.GRU": TorchLanguageModel(options)}
    models |= {name: CombinedLanguageModel(options, name) for name in options.combinations}
    updates = {name: update_of(model, options) for name, model in models.items()}
    times: dict[str, list[float]] = {name: [] for name in updates}
    for turn in range(options.rounds + 1):
        for name, run in updates.items():
            start = time.perf_counter()
            run()
            if turn:  # the first one warms up
                times[name].append(time.perf_counter() - start)
        print(f"round {turn} of {options.rounds}", file=sys.stderr)
    tokens = options.rows * options.length
    print(f"{'':<8}{'tokens/s':>10}{'of nn.GRU':>11}{'parameters':>13}")
    for name, model in models.items():
        share = statistics.median(t / own for t, own in zip(times["nn.GRU"], times[name], strict=True))
        size = sum(parameter.numel() for parameter in model.parameters())
        print(f"{name:<8}{tokens / statistics.median(times[name]):>10.0f}{share:>11.2f}{size:>13,}")


if __name__ == "__main__":
    run_command(main)
