"""An experiment file for a folder of corpora: counted, of a fitting size, every key explained.

What it says of the time is 2,450 target subwords a second and process, with a quarter for all that is not training:
set by the quickstart on two cores of an AMD EPYC with bfloat16 units, which took 15.5 minutes (16 by this rule).
Memory is what two processes of the small model need at 3,000 tokens each (docs/speed.md), as much again that they keep
for the next batch (engine/fairseq_cli.py), and what an epoch of millions of pairs adds. Of GPUs both is arithmetic, not
measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from fairseq_ext.corpora.entries import Corpora, find_corpora
from fairseq_ext.corpora.languages import has_spaces
from fairseq_ext.engine.processes import cores
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError

TEMPLATE = Path(__file__).with_name("own.yaml.jinja")
_NVIDIA = Path("/proc/driver/nvidia/gpus")
_SUBWORDS_PER_WORD = 1.6
_FILLED = 0.75  # of a batch, by sentences of one length
_MINUTES_BESIDES = 1  # without training; of held-out sentences, steps and reports
_LEAST_PAIRS = 100
_LEAST_PASSES, _MOST_PASSES = 10, 60  # of a good base over the text
# Trainings that are as long as that of adapters: the continued base, plain and gated adapters, all fine-tuned models;
# of a single domain the first two.
_RUNS, _RUNS_OF_ONE_DOMAIN = 4, 2
_LEAST_UPDATES = 20  # of a model fine-tuned on one domain
_FEW_PAIRS = 50_000  # are for the quickstart's sizes
_MANY_PAIRS = 300_000  # are worth the paper's model, where there is a GPU
_BYTES_A_PAIR = 27  # of an epoch's order
_KEPT = 2  # on a CPU, for each byte that a batch needs
# Symbols for fewer pairs than this; more have 32,000.
_VOCABULARIES = {1000: 500, 10_000: 2000, 50_000: 4000, 300_000: 8000, 3_000_000: 16_000}


@dataclass(frozen=True)
class Size:
    """A size of models, and what it costs."""

    arch: str  # ending of the architectures' names
    about: str  # the model, in words
    lr: tuple[float, float]  # of the base, and of what continues it
    warmup: tuple[int, int]  # updates of the base until it is reached, and of all others
    updates: int  # of adapters, and of the base model that is continued as their control
    subwords: float  # of the target that a good base sees at least
    subwords_a_second: float  # trained on by one process
    gigabytes: float  # that a process needs


_TINY = Size("_small", "3+2 pre-norm layers, width 192", (0.002, 0.0002), (300, 30), 240, 7e6, 2450, 0.73)
_SMALL = replace(_TINY, updates=320)
_PAPER = Size("", "6+6 layers, width 512: the paper's", (0.0005, 0.0002), (4000, 1000), 10_000, 2e9, 20_000, 6)


@dataclass(frozen=True)
class Plan:
    """What depends on the size, and on the machine."""

    size: Size
    held_out: int  # pairs a domain, twice
    vocab_size: int
    max_tokens: int  # of a batch and process
    gpus: int  # that train; 0 trains on cores
    processes: int  # that train together
    base_updates: int
    passes: int  # of this base over the text
    good_passes: int
    minutes: float  # all of it takes
    good_minutes: float  # with a good base
    gigabytes: float  # of memory that trainings take, on each GPU where there are any

    @property
    def is_good(self) -> bool:
        """Whether the base is trained for as long as a good one takes."""
        return self.passes >= self.good_passes

    @property
    def estimate(self) -> str:
        """Time and memory, in words."""
        cores = "one core" if self.processes == 1 else f"{self.processes} cores"
        on_cores = f"{cores} with bfloat16 units; some times as long on others."
        on_gpus = f"each GPU, of which there are {self.gpus}: by arithmetic, not measured."
        machine = on_gpus if self.gpus else on_cores
        return f"About {_time(self.minutes)} and {self.gigabytes:.1f} GB of memory on {machine}"


def plan_for(corpora: Corpora, cores: int, gpus: int = 0, minutes: float | None = None) -> Plan:
    """Sizes like those of the quickstart (28,000 pairs), the small English-Polish experiment (118,000), or the paper's.

    Without ``gpus``, cores train. ``minutes``, all that it may take, shorten the training of the base.
    """
    for domain, pairs in corpora.pairs.items():
        if pairs < _LEAST_PAIRS:
            raise InputError(f"{corpora.folder}: {domain} has {pairs} pairs; give each domain {_LEAST_PAIRS} at least")
    is_tiny = corpora.total < _FEW_PAIRS
    size = _TINY if is_tiny else _PAPER if gpus and corpora.total >= _MANY_PAIRS else _SMALL
    held_out = max(20, min(200 if is_tiny else 1000, min(corpora.pairs.values()) // 20))
    train = corpora.total - 2 * held_out * len(corpora.pairs)
    subwords = train * corpora.words * _SUBWORDS_PER_WORD
    max_tokens = 750 if is_tiny else 1500 if size is _SMALL else 4096
    processes = gpus or min(2, cores)
    batch = _FILLED * max_tokens * processes
    runs = _RUNS if len(corpora.pairs) > 1 else _RUNS_OF_ONE_DOMAIN
    a_minute = 60 * size.subwords_a_second * processes / 1.25  # of subwords, with the use of what was trained
    besides = runs * size.updates * batch / a_minute + _MINUTES_BESIDES
    a_pass = subwords / a_minute
    good_passes = max(_LEAST_PASSES, min(_MOST_PASSES, round(size.subwords / subwords)))
    passes = good_passes if minutes is None else min(good_passes, int((minutes - besides) / a_pass))
    if passes < 1:
        raise InputError(f"--minutes: {minutes:g} are too few; this text takes {besides + a_pass:.0f} at least")
    # Processes of cores have one above them that waits.
    on_cores = _KEPT * size.gigabytes * (processes + 1) + processes * train * _BYTES_A_PAIR / 1e9
    vocab_size = next((symbols for limit, symbols in _VOCABULARIES.items() if corpora.total < limit), 32_000)
    return Plan(
        size,
        held_out,
        vocab_size,
        max_tokens,
        gpus,
        processes,
        passes * max(1, round(subwords / batch)),
        passes,
        good_passes,
        passes * a_pass + besides,
        good_passes * a_pass + besides,
        size.gigabytes if gpus else on_cores,
    )


def write_experiment(corpora: Corpora, plan: Plan, path: Path, work_dir: str, *, is_paper: bool = False) -> None:
    """Write the file, which must not be there yet; see :func:`init`."""
    if path.exists():
        raise InputError(f"{path}: is there already; move it away, or name another file by --output")
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    environment.filters["pad"] = lambda value, width: f"{value:<{width - 1}} "
    domain_updates = max(plan.size.updates // len(corpora.pairs), _LEAST_UPDATES)
    values = {
        **vars(plan.size),
        **vars(plan),
        "base_warmup": min(plan.size.warmup[0], plan.base_updates // 4),
        "domain_updates": domain_updates,
        "domain_warmup": min(plan.size.warmup[1] // 2, domain_updates // 4),
        "is_good": plan.is_good,
        "domains": list(corpora.pairs),
        "pairs": corpora.total,
        "spaces": all(map(has_spaces, corpora.langs)),
        "source": corpora.langs[0],
        "target": corpora.langs[1],
        "folder": _quoted(corpora.folder),
        "entries": {_quoted(domain): [_quoted(entry) for entry in each] for domain, each in corpora.entries.items()},
        "work_dir": _quoted(work_dir),
        "estimate": plan.estimate,
        "is_paper": is_paper,
        "good": _time(plan.good_minutes),
    }
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(values)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def init(
    folder: Path,
    output: Path,
    source: str | None = None,
    target: str | None = None,
    gpus: int | None = None,
    minutes: float | None = None,
    *,
    is_paper: bool = False,
) -> None:
    """Write an experiment file for a folder of corpora, and print what it will take.

    Languages are by default English, if it is there, and the other one; ``gpus`` those of the machine; ``minutes`` what
    a good base takes. With ``is_paper``, gates are the paper's.
    """
    corpora = find_corpora(folder, source, target)
    if gpus is None:
        # Those that NVIDIA's driver knows; torch, which knows of others too, takes seconds to import.
        gpus = sum(1 for _ in _NVIDIA.iterdir()) if _NVIDIA.is_dir() else 0
    plan = plan_for(corpora, cores(), gpus, minutes)
    write_experiment(corpora, plan, output, f"runs/{output.stem}", is_paper=is_paper)
    for domain, pairs in corpora.pairs.items():
        print(f"{domain:<20}{pairs:>12,} pairs")
    source, target = corpora.langs
    print(f"{output}: from {source} to {target} (--source {target} for the other direction)")
    print(f"mix: {plan.passes} passes over the text. {plan.estimate}")
    if not plan.is_good:
        good = f"{plan.good_passes} passes, {_time(plan.good_minutes)} in all"
        print(f"A good mix takes {good}: leave out --minutes before you compare systems or deploy one.")
    print(f"Next: fairseq-ext run {output}")


def _time(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"


def _quoted(path: Path | str) -> str:
    """As a string of YAML."""
    return json.dumps(str(path), ensure_ascii=False)
