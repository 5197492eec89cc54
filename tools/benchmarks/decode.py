"""Translate with plain and gated adapters and the bare Transformer, by greedy and beam search.

Models and sentences are random; all translations have the same length. Plain adapters translate sentences of one
domain, as in a test set of one domain, and sentences of all domains mixed. Kernels and waits (operators for which a
GPU's host would wait) are counted for a forward pass and for one decoding step.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path

from benchmarks.shared.cases import Case, Ready
from benchmarks.shared.models import SIZES, generation, make_input, make_model, operator_facts
from benchmarks.shared.precision import PRECISIONS, at_precision

UNIT = "sentences/s"
_SYSTEMS = ("MIX", "AD", "AD mixed", "GAD")
_TOLD_BY = {"AD": "MIX", "AD mixed": "MIX", "GAD": "AD"}
_TOP = "GAD top "
_BEAM = 5


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--size", choices=SIZES, default="paper", help="preset of the models")
    parser.add_argument("--vocabulary", type=int, default=32000, help="vocabulary size; embeddings are tied")
    parser.add_argument("--domains", type=int, default=6, help="number of domains")
    parser.add_argument(
        "--sentences", type=int, default=32, help="sentences per batch; a quarter of them for beam search"
    )
    parser.add_argument("--tokens", type=int, default=32, help="tokens per sentence, in source and target")
    parser.add_argument("--precisions", nargs="+", default=list(PRECISIONS), help="precisions to measure")
    parser.add_argument(
        "--top", type=int, nargs="*", default=[], help="numbers of adapters that a gate selects, in addition to all"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")


def cases(options: Namespace) -> list[Case]:
    return [
        _case(system, precision, beam, options)
        for beam in (1, _BEAM)
        for precision in options.precisions
        for system in (*_SYSTEMS, *(f"{_TOP}{top}" for top in options.top))
    ]


def _case(system: str, precision: str, beam: int, options: Namespace) -> Case:
    def name(system: str, precision: str) -> str:
        return f"{system}, {f'beam {beam}' if beam > 1 else 'greedy'}, {precision}"

    first = options.precisions[0]
    told_by = _TOLD_BY.get(system, "GAD")
    baselines = [name(told_by, precision)] if system != "MIX" else []
    baselines += [name(system, first)] if precision != first else []
    sentences = options.sentences if beam == 1 else max(1, options.sentences // 4)
    prepare = partial(_prepare, system, precision, beam, sentences, options)
    return Case(name(system, precision), prepare, sentences, tuple(baselines), group=f"beam {beam}")


def _prepare(system: str, precision: str, beam: int, sentences: int, options: Namespace, folder: Path) -> Ready:
    plain = system.split()[0]
    chosen = {"gate_top_k": int(system.removeprefix(_TOP))} if system.startswith(_TOP) else None
    model = make_model(plain, options.size, options.vocabulary, options.domains, chosen)
    model = at_precision(model.to(options.device).eval(), precision)
    # Step between the domains of successive sentences, for plain adapters.
    step = 1 if system.endswith("mixed") else 0
    domain_ids = [step * i % options.domains for i in range(sentences)] if plain == "AD" else None
    net_input = make_input(sentences, options.tokens, options.vocabulary, domain_ids, options.device)
    run = generation(model, net_input, beam, options.tokens)
    return Ready(run, operator_facts(model, net_input) if beam == 1 and precision == options.precisions[0] else {})
