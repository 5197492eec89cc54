"""An experiment file for a folder of corpora: counted, of a fitting size, every key explained.

What it says of the time is 2,450 target subwords a second and process, with a quarter for all that is not training:
set by the quickstart on two cores of an AMD EPYC with bfloat16 units, which took 15.5 minutes (16 by this rule). The
trainings of the small English-Polish experiment come to 1.3 hours by it; they took 2.5 of a shared machine, with code
that was 1.7 times slower. Memory is what two processes of the small model need at 3,000 tokens each
(docs/speed.md), as much again that they keep for the next batch (engine/kept_memory.py), and what an epoch of millions
of pairs adds. Of GPUs both is arithmetic, not measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.corpora.found import Corpora, find_corpora
from fairseq_ext.corpora.languages import has_spaces
from fairseq_ext.engine.cores import cores
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError, run_command

TEMPLATE = Path(__file__).with_name("own.yaml.jinja")
_NVIDIA = Path("/proc/driver/nvidia/gpus")
_SUBWORDS_PER_WORD = 1.6
# Sentences of one length fill three quarters of a batch.
_FILLED = 0.75
# Without training; of held-out sentences, steps and reports.
_MINUTES_BESIDES = 1
_LEAST_PAIRS = 100
# So many pairs are worth the paper's model, where there is a GPU.
_MANY_PAIRS = 300_000
_BYTES_A_PAIR = 27  # of an epoch's order
_KEPT = 2  # on a CPU, for each byte that a batch needs


@dataclass(frozen=True)
class Size:
    """A size of models, and what it costs.

    Attributes:
        arch: ending of the architectures' names.
        about: the model, in words.
        lr: learning rate.
        warmup: updates of the base until it is reached, and of adapters.
        dropout: its probability.
        updates: of the adapters.
        subwords: target subwords that the base should see, within some 4 and 30 passes.
        subwords_a_second: trained on by one process.
        gigabytes: that a process needs.
    """

    arch: str
    about: str
    lr: float
    warmup: tuple[int, int]
    dropout: float
    updates: int
    subwords: float
    subwords_a_second: float
    gigabytes: float


_TINY = Size("_small", "3+2 pre-norm layers, width 192", 0.002, (300, 100), 0.2, 320, 3e6, 2450, 0.73)
_SMALL = Size("_small", "3+2 pre-norm layers, width 192", 0.002, (300, 100), 0.2, 500, 3e6, 2450, 0.73)
_PAPER = Size("", "6+6 layers, width 512: the paper's", 0.0005, (4000, 1000), 0.1, 10_000, 2e9, 20_000, 6.0)


@dataclass(frozen=True)
class Plan:
    """What depends on the size, and on the machine.

    Attributes:
        size: of the models.
        held_out: pairs a domain, twice.
        vocab_size: symbols.
        max_tokens: of a batch and process.
        gpus: that train; 0 trains on cores.
        processes: that train together.
        epochs: of the base.
        minutes: all of it takes.
        gigabytes: of memory that trainings take, on each GPU where there are any.
    """

    size: Size
    held_out: int
    vocab_size: int
    max_tokens: int
    gpus: int
    processes: int
    epochs: int
    minutes: float
    gigabytes: float


def plan_for(corpora: Corpora, cores: int, gpus: int = 0) -> Plan:
    """Sizes like those of the quickstart (28,000 pairs), the small English-Polish experiment (118,000), or the paper's.

    Raises:
        InputError: naming a domain that is too small, or the only one.
    """
    if len(corpora.pairs) < 2:
        raise InputError(f"{corpora.folder}: holds one domain, {', '.join(corpora.pairs)}; add another to choose from")
    for domain, pairs in corpora.pairs.items():
        if pairs < _LEAST_PAIRS:
            raise InputError(f"{corpora.folder}: {domain} has {pairs} pairs; give each domain {_LEAST_PAIRS} at least")
    is_tiny = corpora.total < 50_000
    size = _TINY if is_tiny else _PAPER if gpus and corpora.total >= _MANY_PAIRS else _SMALL
    held_out = max(20, min(1000 if not is_tiny else 200, min(corpora.pairs.values()) // 20))
    train = corpora.total - 2 * held_out * len(corpora.pairs)
    subwords = train * corpora.words * _SUBWORDS_PER_WORD
    epochs = max(4, min(30, round(size.subwords / subwords)))
    max_tokens = 1500 if is_tiny else 3000 if size is _SMALL else 4096
    processes = gpus or min(2, cores)
    trained = subwords * epochs + 2 * size.updates * _FILLED * max_tokens * processes
    return Plan(
        size,
        held_out,
        _vocabulary(corpora.total),
        max_tokens,
        gpus,
        processes,
        epochs,
        minutes_for(trained, size, processes) + _MINUTES_BESIDES,
        # Processes of cores have one above them that waits.
        size.gigabytes if gpus else _KEPT * size.gigabytes * (processes + 1) + processes * train * _BYTES_A_PAIR / 1e9,
    )


def minutes_for(subwords: float, size: Size, processes: int) -> float:
    """How long it takes to train on so many target subwords, and to use what was trained."""
    return subwords / (size.subwords_a_second * processes) / 60 * 1.25


def write_experiment(corpora: Corpora, plan: Plan, path: Path, work_dir: str) -> None:
    """Write the file.

    Raises:
        InputError: if it is there already.
    """
    if path.exists():
        raise InputError(f"{path}: is there already; move it away, or name another file by --output")
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    environment.filters["pad"] = lambda value, width: f"{value:<{width - 1}} "
    values = {
        **vars(plan.size),
        **vars(plan),
        "domains": list(corpora.pairs),
        "pairs": corpora.total,
        "spaces": all(map(has_spaces, corpora.langs)),
        "source": corpora.langs[0],
        "target": corpora.langs[1],
        "folder": _quoted(corpora.folder),
        "entries": {_quoted(domain): [_quoted(entry) for entry in each] for domain, each in corpora.entries.items()},
        "work_dir": _quoted(work_dir),
        "estimate": _estimate(plan),
    }
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(values)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/init.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/init.sh",
        description="Look at a folder of corpora, such as DOMAIN.en and DOMAIN.pl, DOMAIN.tsv or DOMAIN.tmx, "
        "compressed or not, and write an experiment file of a fitting size, in which every key is explained.",
    )
    parser.add_argument("folder", type=Path, help="of the corpora: text line by line, or TSV, source first, or TMX")
    parser.add_argument(
        "--source", metavar="LANG", help="language of the text to translate (default: en, if it is there)"
    )
    parser.add_argument("--target", metavar="LANG", help="language to translate into (default: the other one)")
    parser.add_argument("--gpus", type=int, metavar="N", help="that will train (default: those of this machine)")
    parser.add_argument("--output", type=Path, default=Path("my.yaml"), help="file to write (default: my.yaml)")
    options = parser.parse_args(arguments)
    corpora = find_corpora(options.folder, options.source, options.target)
    if options.gpus is not None and options.gpus < 0:
        raise InputError(f"--gpus: {options.gpus} is no number of GPUs; give 0 or more")
    plan = plan_for(corpora, cores(), _count_gpus() if options.gpus is None else options.gpus)
    write_experiment(corpora, plan, options.output, f"runs/{options.output.stem}")
    for domain, pairs in corpora.pairs.items():
        print(f"{domain:<20}{pairs:>12,} pairs")
    print(f"{options.output}: {' to '.join(corpora.langs)}, {plan.epochs} epochs for mix. {_estimate(plan)}")
    if corpora.total >= _MANY_PAIRS and not plan.gpus:
        print("So much text is worth the paper's model, on GPUs: scripts/init.sh there, or with --gpus N.")
    print(f"Next: scripts/run_experiment.sh {options.output}")


def _count_gpus() -> int:
    """Those that NVIDIA's driver knows; torch, which knows of others too, takes seconds to import."""
    return sum(1 for _ in _NVIDIA.iterdir()) if _NVIDIA.is_dir() else 0


def _vocabulary(pairs: int) -> int:
    limits = ((1000, 500), (10_000, 2000), (50_000, 4000), (300_000, 8000), (3_000_000, 16_000))
    return next((size for limit, size in limits if pairs < limit), 32_000)


def _estimate(plan: Plan) -> str:
    time = f"{plan.minutes:.0f} minutes" if plan.minutes < 90 else f"{plan.minutes / 60:.1f} hours"
    memory = f"{plan.gigabytes:.1f} GB of memory"
    if plan.gpus:
        where = "one GPU" if plan.gpus == 1 else f"{plan.gpus} GPUs"
        return f"About {time} on {where}, and {memory} on each: by arithmetic, not measured."
    cores = "one core" if plan.processes == 1 else f"{plan.processes} cores"
    return f"About {time} and {memory} on {cores} with bfloat16 units; some times as long on others."


def _quoted(path: Path | str) -> str:
    """As a string of YAML."""
    import json

    return json.dumps(str(path), ensure_ascii=False)


if __name__ == "__main__":
    run_command(main)
