#!/usr/bin/env python3
"""Speed and memory of plain and gated adapters against the bare Transformer, on random weights and text.

Prints three tables: greedy decoding (sentences/s, the systems in turn, ratios of each round), the time of a
training step, and its peak memory at two target lengths, each in a process of its own. Figures depend on the
machine; the ratios within one run are what to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.engine.own_python import use_own_python

use_own_python()

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator

import fairseq_ext  # noqa: F401  (registers the models)
from fairseq_ext.criterions.label_smoothed_cross_entropy_with_kd_gate import (
    LabelSmoothedCrossEntropyWithKDGateCriterion,
)
from fairseq_ext.inputs.errors import run_command

ARCHS = {"MIX": "transformer", "AD": "transformer_domain_adapter", "GAD": "transformer_gated_adapter"}
DOMAINS = ["IT", "LAW", "MED", "REL", "SUB", "TALK"]


def make_model(name: str, options: Namespace) -> Any:
    """A random model at paper size, or of another preset."""
    torch.manual_seed(1)
    arch = ARCHS[name] + ("" if options.size == "paper" else f"_{options.size}")
    dictionary = Dictionary()
    for i in range(options.vocabulary - len(dictionary)):
        dictionary.add_symbol(f"w{i}")
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary, domains=DOMAINS)
    args = Namespace(arch=arch, share_all_embeddings=True, dropout=0.1)
    ARCH_CONFIG_REGISTRY[arch](args)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task)


def make_input(name: str, sentences: int, tokens: int, options: Namespace) -> dict[str, torch.Tensor]:
    """Random sentences of one length and, for AD, one domain, as in a test set of one domain."""
    torch.manual_seed(2)
    source = torch.randint(4, options.vocabulary, (sentences, tokens))
    source[:, -1] = 2
    net_input = {"src_tokens": source, "src_lengths": torch.full((sentences,), tokens)}
    if name == "AD":
        net_input["domain_ids"] = torch.zeros(sentences, dtype=torch.long)
    return net_input


def benchmark_decoding(options: Namespace) -> None:
    generators, inputs = {}, {}
    times: dict[str, list[float]] = {name: [] for name in ARCHS}
    for name in ARCHS:
        model = make_model(name, options).eval()
        model.make_generation_fast_()
        dictionary = model.decoder.dictionary
        generators[name] = SequenceGenerator(
            [model], dictionary, beam_size=1, min_len=options.tokens - 1, max_len_b=options.tokens - 1
        )
        inputs[name] = make_input(name, options.sentences, options.tokens, options)
    for turn in range(options.rounds + 1):
        for name in ARCHS:
            start = time.perf_counter()
            with torch.no_grad():
                generators[name].generate([], {"net_input": inputs[name]})
            if turn:  # the first round warms up
                times[name].append(time.perf_counter() - start)
    print(f"\nGreedy decoding, {options.sentences} sentences of {options.tokens} tokens, {options.threads} thread(s)")
    for name in ARCHS:
        ratio = statistics.median(a / b for a, b in zip(times["MIX"], times[name], strict=True))
        to_ad = statistics.median(a / b for a, b in zip(times["AD"], times[name], strict=True))
        rate = options.sentences / statistics.median(times[name])
        print(f"  {name:4} {rate:7.2f} sentences/s   {ratio:.2f} of MIX   {to_ad:.2f} of AD")


def training_step(name: str, tokens: int, options: Namespace) -> dict[str, float]:
    """Seconds of the second training step, and the peak memory of the process in GiB."""
    model = make_model(name, options).train()
    sentences = options.train_sentences
    net_input = make_input(name, sentences, tokens, options)
    target = net_input["src_tokens"]
    net_input["prev_output_tokens"] = target.roll(1, 1)
    sample = {"net_input": net_input, "target": target, "ntokens": target.numel()}
    sample["teacher_probs"] = torch.full((sentences, len(DOMAINS)), 1 / len(DOMAINS))
    task = Namespace(target_dictionary=model.decoder.dictionary)
    gate = LabelSmoothedCrossEntropyWithKDGateCriterion(task, False, 0.1, 0.5, 0.1, "probs", "sentence")
    plain = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
    for _ in range(2):
        start = time.perf_counter()
        loss = (gate if name == "GAD" else plain)(model, sample)[0]
        loss.backward()
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 2**30 if sys.platform == "darwin" else 2**20  # bytes on macOS, KiB elsewhere
    return {"seconds": seconds, "peak": peak / unit}


def benchmark_training(options: Namespace) -> None:
    print(f"\nOne training step and its process's peak memory, {options.train_sentences} sentences")
    for tokens in options.train_tokens:
        for name in ARCHS:
            command = [sys.executable, __file__, *sys.argv[1:], "--one-step", name, str(tokens)]
            # Without this, glibc keeps freed memory for itself and the peak says more of it than of the model.
            environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
            figures = json.loads(done.stdout.splitlines()[-1])
            print(f"  {tokens:4} target tokens  {name:4} {figures['seconds']:6.2f} s   {figures['peak']:.2f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--size", choices=["paper", "small", "tiny"], default="paper", help="preset of the models")
    parser.add_argument("--vocabulary", type=int, default=32000, help="symbols, tied embeddings")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--sentences", type=int, default=64, help="sentences decoded in a batch")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of each, source and target")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds of decoding")
    parser.add_argument("--train-sentences", type=int, default=4, help="sentences in a training step")
    parser.add_argument("--train-tokens", type=int, nargs="+", default=[256, 512], help="target lengths in training")
    parser.add_argument("--one-step", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.one_step:
        name, tokens = options.one_step
        print(json.dumps(training_step(name, int(tokens), options)))
        return
    benchmark_decoding(options)
    benchmark_training(options)


if __name__ == "__main__":
    run_command(main)
