"""Many domains: gates that mix all adapters or only the best few; decoding, training and memory.

A training step is a forward and backward pass with the system's criterion on one batch of random text. Memory is the
peak of a separate process.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.shared.cases import Case, Ready
from benchmarks.shared.models import SIZES, finish, generation, make_input, make_model

UNIT = "sentences/s"
_DENSE = "dense"


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--size", choices=SIZES, default="paper", help="preset of the models")
    parser.add_argument("--vocabulary", type=int, default=32000, help="vocabulary size; embeddings are tied")
    parser.add_argument("--domains", type=int, nargs="+", default=[6, 16, 64], help="numbers of domains")
    parser.add_argument("--top", type=int, nargs="+", default=[0, 2, 1], help="adapters that a gate selects; 0: all")
    parser.add_argument("--sentences", type=int, default=16, help="sentences per batch in decoding")
    parser.add_argument("--train-sentences", type=int, default=16, help="sentences per batch in training")
    parser.add_argument("--tokens", type=int, default=24, help="tokens per sentence, in source and target")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.set_defaults(rounds=2)


def cases(options: Namespace) -> list[Case]:
    found = []
    for work, prepare, amount in (
        ("decoding", _prepare_decoding, options.sentences),
        ("training", _prepare_training, options.train_sentences),
    ):
        first = options.domains[0]
        systems: list[tuple[str, str, int, int]] = [("MIX", "MIX", first, 0), (f"AD, {first}", "AD", first, 0)]
        systems += [
            (f"GAD, {number}, {f'top {top}' if top else _DENSE}", "GAD", number, top)
            for number in options.domains
            for top in options.top
        ]
        for name, system, number, top in systems:
            baselines = () if system == "MIX" else (f"{'MIX' if system == 'AD' else f'GAD, {first}, dense'}, {work}",)
            run = partial(prepare, system, number, top, options)
            name = f"{name}, {work}"
            found.append(Case(name, run, amount, tuple({*baselines} - {name}), work, own_process=work == "training"))
    return found


def _model(system: str, number: int, top: int, options: Namespace) -> Any:
    chosen = {"gate_top_k": top} if top else None
    return make_model(system, options.size, options.vocabulary, number, chosen).to(options.device)


def _prepare_decoding(system: str, number: int, top: int, options: Namespace, folder: Path) -> Ready:
    domain_ids = [i % number for i in range(options.sentences)] if system == "AD" else None
    net_input = make_input(options.sentences, options.tokens, options.vocabulary, domain_ids, options.device)
    return Ready(generation(_open_gates(_model(system, number, top, options)), net_input, 1, options.tokens))


def _prepare_training(system: str, number: int, top: int, options: Namespace, folder: Path) -> Ready:
    """Prepare a forward and backward pass on one batch with equally many sentences per domain."""
    import torch
    from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion

    from fairseq_ext.criterions.label_smoothed_cross_entropy_with_kd_gate import (
        LabelSmoothedCrossEntropyWithKDGateCriterion,
    )

    model = _open_gates(_model(system, number, top, options)).train()
    sentences = options.train_sentences
    domain_ids = [i % number for i in range(sentences)] if system == "AD" else None
    net_input = make_input(sentences, options.tokens, options.vocabulary, domain_ids, options.device)
    target = net_input["src_tokens"]
    net_input["prev_output_tokens"] = target.roll(1, 1)
    sample = {"net_input": net_input, "target": target, "ntokens": target.numel()}
    sample["teacher_probs"] = torch.full((sentences, number), 1 / number, device=options.device)
    task = Namespace(target_dictionary=model.decoder.dictionary)
    if system == "GAD":
        criterion = LabelSmoothedCrossEntropyWithKDGateCriterion(task, False, 0.1, 0.5, 0.1, "probs", "sentence")
    else:
        criterion = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)

    def run() -> dict[str, float]:
        model.zero_grad()
        criterion(model, sample)[0].backward()
        return finish(options.device)

    return Ready(run)


def _open_gates(model: Any) -> Any:
    """Randomise the gates, so that sentences select different adapters."""
    import torch

    for name, parameter in model.named_parameters():
        if name.endswith("router.weight"):
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    return model
