#!/usr/bin/env python3
"""Time and memory of a mixture of softmaxes against a plain output layer, on random states and targets.

Z + 1 softmaxes should cost little more time than their arithmetic, forward and backward, and no more memory however
many they are. Every round times the plain layer, the mixture and its cheap form one after the other; the ratios within
one run are what to compare, the seconds depend on the machine, which should be idle. Memory is the peak of a
process of its own for each number of topics. Defaults are the small experiment's size; the paper's are
``--width 768 --vocabulary 50257``.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.engine.own_python import use_own_python

use_own_python()

import torch
import torch.nn.functional as F

from fairseq_ext.inputs.errors import run_command
from fairseq_ext.modules.mixture_of_softmaxes import MixtureOfSoftmaxes
from fairseq_ext.modules.topic_steering import TopicSteering


def plain_layer(options: argparse.Namespace) -> Callable[[], None]:
    """Forward and backward of a language model's output layer that is fine-tuned with the model below."""
    hidden, targets, weight = random_tensors(options)
    hidden.requires_grad_()

    def run() -> None:
        hidden.grad = weight.grad = None
        F.cross_entropy(F.linear(hidden, weight), targets, reduction="sum").backward()

    return run


def mixture(options: argparse.Namespace, num_topics: int, average_states: bool = False) -> Callable[[], None]:
    """The same of a mixture on a frozen model, whose states need no gradient."""
    hidden, targets, weight = random_tensors(options)
    topics = MixtureOfSoftmaxes(TopicSteering(options.width, num_topics), average_states, options.chunk)

    def run() -> None:
        topics.zero_grad()
        weight.grad = None
        (-topics.log_prob_sum(hidden, targets, weight)).backward()

    return run


def random_tensors(options: argparse.Namespace) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    hidden = torch.randn(options.tokens, options.width)
    targets = torch.randint(options.vocabulary, (options.tokens,))
    weight = torch.randn(options.vocabulary, options.width) * options.width**-0.5
    return hidden, targets, weight.requires_grad_()


def arithmetic(options: argparse.Namespace, num_softmaxes: int, num_topics: int) -> int:
    """Multiplications a token: three products with W_V a softmax (both gradients), two with A_z a topic (its own)."""
    weights = 2 * (num_topics + 1) * options.width if num_topics else 0
    return 3 * num_softmaxes * options.vocabulary * options.width + 2 * num_topics * options.width**2 + weights


def compare_times(options: argparse.Namespace) -> None:
    z = options.topics
    cases = {
        "plain layer": (plain_layer(options), arithmetic(options, 1, 0)),
        f"{z} topics": (mixture(options, z), arithmetic(options, z + 1, z)),
        f"{z} topics, logits": (mixture(options, z, average_states=True), arithmetic(options, 1, z)),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(options.rounds + 1):
        for name, (run, _) in cases.items():
            start = time.perf_counter()
            run()
            if turn:  # the first one warms up
                times[name].append(time.perf_counter() - start)
        print(f"round {turn} of {options.rounds}", file=sys.stderr)
    plain = cases["plain layer"][1]
    print(f"{'':<20}{'tokens/s':>10}{'time':>9}{'arithmetic':>12}{'ratio':>8}")
    for name, (_, operations) in cases.items():
        by_time = statistics.median(t / p for t, p in zip(times[name], times["plain layer"], strict=True))
        by_count = operations / plain
        speed = options.tokens / statistics.median(times[name])
        print(f"{name:<20}{speed:>10.0f}{by_time:>8.2f}x{by_count:>11.2f}x{by_time / by_count:>8.2f}")


def compare_memory(options: argparse.Namespace) -> None:
    print(f"\n{'topics':>6}{'peak':>14}{'of it topics':>15}")
    for number in options.memory_topics:
        words = [f"--{name}={getattr(options, name)}" for name in ("width", "vocabulary", "tokens", "chunk", "threads")]
        done = subprocess.run(
            [sys.executable, __file__, f"--peak-of={number}", *words], capture_output=True, text=True, check=True
        )
        # The topics themselves, their gradient, and its sum over chunks before and after it is scaled.
        own = 4 * 4 * number * options.width * (options.width + 1) / 2**20
        print(f"{number:>6}{float(done.stdout):>10.0f} MiB{own:>11.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--width", type=int, default=192, help="H, of the states")
    parser.add_argument("--vocabulary", type=int, default=8000, help="V, symbols")
    parser.add_argument("--tokens", type=int, default=2048, help="tokens of a batch")
    parser.add_argument("--topics", type=int, default=20, help="Z, of which the time is measured")
    parser.add_argument("--chunk", type=int, default=1024, help="rows of logits at a time")
    parser.add_argument("--memory-topics", type=int, nargs="*", default=[1, 5, 20], help="Z, of which memory is")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count; one more warms up")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--peak-of", type=int, help=argparse.SUPPRESS)  # topics whose peak this process prints
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak_of is not None:
        mixture(options, options.peak_of)()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    compare_times(options)
    compare_memory(options)


if __name__ == "__main__":
    run_command(main)
