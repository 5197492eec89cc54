"""Compare a mixture of softmaxes with a plain output layer: time and memory on random states and targets.

Z + 1 softmaxes should take little more time than their arithmetic, forward and backward, and no additional memory for
any Z. Defaults are the small experiment's sizes; the paper's are ``--width 768 --vocabulary 50257``.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.shared.cases import Case, Ready

UNIT = "tokens/s"
_PLAIN = "plain layer"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--width", type=int, default=192, help="width H of the states")
    parser.add_argument("--vocabulary", type=int, default=8000, help="vocabulary size V")
    parser.add_argument("--tokens", type=int, default=1024, help="tokens per batch")
    parser.add_argument("--topics", type=int, nargs="+", default=[1, 5, 20], help="numbers of topics Z")
    parser.add_argument("--chunk", type=int, default=1024, help="rows of logits per chunk")


def cases(options: argparse.Namespace) -> list[Case]:
    found = [Case(_PLAIN, partial(_plain_layer, options), options.tokens)]
    for number in options.topics:
        run = partial(_mixture, options, number, False)
        found.append(Case(f"{number} topics", run, options.tokens, (_PLAIN,), own_process=True))
    cheap = partial(_mixture, options, options.topics[-1], True)
    return [*found, Case(f"{options.topics[-1]} topics, logits", cheap, options.tokens, (_PLAIN,))]


def _plain_layer(options: argparse.Namespace, folder: Path) -> Ready:
    """Prepare forward and backward passes of an output layer that is fine-tuned with the model below it."""
    import torch.nn.functional as F

    hidden, targets, weight = _random_tensors(options)
    hidden.requires_grad_()

    def run() -> None:
        hidden.grad = weight.grad = None
        F.cross_entropy(F.linear(hidden, weight), targets, reduction="sum").backward()

    return Ready(run)


def _mixture(options: argparse.Namespace, num_topics: int, average_states: bool, folder: Path) -> Ready:
    """Prepare the same for a mixture on a frozen model, whose states need no gradient."""
    from fairseq_ext.modules.topics import MixtureOfSoftmaxes, TopicSteering

    hidden, targets, weight = _random_tensors(options)
    topics = MixtureOfSoftmaxes(TopicSteering(options.width, num_topics), average_states, options.chunk)

    def run() -> None:
        topics.zero_grad()
        weight.grad = None
        (-topics.log_prob_sum(hidden, targets, weight)).backward()

    softmaxes = 1 if average_states else num_topics + 1
    return Ready(
        run, {"times the arithmetic": _arithmetic(options, softmaxes, num_topics) / _arithmetic(options, 1, 0)}
    )


def _random_tensors(options: argparse.Namespace) -> tuple[Any, Any, Any]:
    import torch

    torch.manual_seed(1)
    hidden = torch.randn(options.tokens, options.width)
    targets = torch.randint(options.vocabulary, (options.tokens,))
    weight = torch.randn(options.vocabulary, options.width) * options.width**-0.5
    return hidden, targets, weight.requires_grad_()


def _arithmetic(options: argparse.Namespace, num_softmaxes: int, num_topics: int) -> int:
    """Return multiplications per token.

    There are three products with W_V per softmax (both gradients), and two with A_z per topic (its own gradient).
    """
    weights = 2 * (num_topics + 1) * options.width if num_topics else 0
    return 3 * num_softmaxes * options.vocabulary * options.width + 2 * num_topics * options.width**2 + weights
