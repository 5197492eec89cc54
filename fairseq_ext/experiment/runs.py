"""Systems and outputs of an experiment file, and the runs they stand for.

A *system* is an entry of ``train: systems``, a *run* one training of it: one a seed, or one a domain. An *output* is
an entry of ``translate: outputs``, a way to use a system; it is made once with every run of the system. Runs are named
after their system or output: ``gad``, ``gad@2`` for one of several seeds, ``ft@LAW`` for one of the domains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fairseq_ext.corpora.entries import folder_entries
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import ExperimentConfig
from fairseq_ext.experiment.yaml_sections import as_mapping

# A name is a directory's, and @ sets its run apart.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
PLAIN_ADAPTERS = "transformer_domain_adapter"

_Named = TypeVar("_Named", "Run", "OutputRun")


class Experiment(Protocol):
    """What experiments of every kind have: their file, their folder, their seed, and systems to train."""

    @property
    def path(self) -> Path: ...
    @property
    def work_dir(self) -> Path: ...
    @property
    def seed(self) -> int: ...
    @property
    def train(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class System:
    """One system to train.

    Attributes:
        name: its name.
        start: the system whose best checkpoint it starts from, if any (``from`` in the file).
        uses_teacher: whether it is given the classifier's labels.
        seeds: of its runs; none stands for the experiment's own.
        per_domain: whether it is trained once for each domain, on that domain alone.
        data: binarised data to train on instead of the experiment's own; its subwords must be the same.
        options: fairseq-train's.
    """

    name: str
    start: str | None = None
    uses_teacher: bool = False
    seeds: tuple[int, ...] = ()
    per_domain: bool = False
    data: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def needs_domain(self) -> bool:
        """Whether it must be told the domain of what it translates."""
        return self.has_tags or str(option_of(self.options, "arch")).startswith(PLAIN_ADAPTERS)

    @property
    def has_tags(self) -> bool:
        """Whether a domain tag opens its sentences."""
        return bool(option_of(self.options, "domain-tags"))


@dataclass(frozen=True)
class Run:
    """One training of a system.

    Attributes:
        name: of the run and its directory.
        system: what is trained.
        seed: of the training.
        domain: the only domain that it is trained on; None for all.
    """

    name: str
    system: System
    seed: int
    domain: str | None = None


@dataclass(frozen=True)
class OutputRun:
    """The translations that one run makes.

    Attributes:
        name: of the translations and their directory.
        output: the entry of ``translate: outputs``.
        run: the run that translates.
        options: fairseq-generate's; ``system`` and ``gates`` are not among them.
        gates: whether the gates' weights are wanted.
    """

    name: str
    output: str
    run: Run
    options: dict[str, Any]
    gates: bool = False

    @property
    def domain_source(self) -> str:
        """Where the domain comes from: ``oracle``, ``classifier`` or ``none``, which is also for what needs none."""
        source = str(option_of(self.options, "domain-source") or "oracle")
        is_given = option_of(self.options, "domain") or not self.run.system.needs_domain
        return "none" if source == "oracle" and is_given else source

    @property
    def translates_any_text(self) -> bool:
        """Whether it can be used on text whose domain nobody knows: not if it has to be told, or knows only one."""
        return self.run.domain is None and self.domain_source != "oracle"


def systems_of(config: Experiment) -> dict[str, System]:
    """The systems under ``train: systems``, each with the options of ``train: common`` first.

    They come in the order of the file, but none before the one that it starts from.

    Raises:
        InputError: naming a key, value or system that cannot be used.
    """
    where = f"{config.path}: train"
    systems = {
        name: _read_system(name, entry, f"{where}: systems: {name}")
        for name, entry in named_entries(config.train, "systems", where).items()
    }
    ordered: dict[str, System] = {}
    for name in systems:
        for system in _with_starts(systems, name, f"{where}: systems"):
            ordered.setdefault(system.name, system)
    return ordered


def system_of(config: Experiment, name: str) -> System:
    """One system by its name.

    Raises:
        InputError: if there is none of this name.
    """
    systems = systems_of(config)
    if name not in systems:
        raise InputError(f"{config.path}: train: systems: no {name!r}; there are {', '.join(systems) or 'none'}")
    return systems[name]


def runs_of(config: ExperimentConfig, name: str) -> list[Run]:
    """The runs of a system, or the one run of this name.

    Raises:
        InputError: if there is no such system or run.
    """
    system_name, separator, _ = name.partition("@")
    system = system_of(config, system_name)
    runs = expand(system, config.seed, domains_of(config) if system.per_domain else ())
    if not separator:
        return runs
    return [named_run(runs, name, f"{config.path}: train: systems: {system_name}")]


def expand(system: System, seed: int, domains: Sequence[str]) -> list[Run]:
    """One run a domain or a seed; a single seed needs no number in the name.

    Args:
        system: what is trained.
        seed: for a system without seeds of its own.
        domains: the experiment's, for a system with one run a domain.
    """
    if system.per_domain:
        return [Run(f"{system.name}@{domain}", system, seed, domain) for domain in domains]
    if len(system.seeds) > 1:
        return [Run(f"{system.name}@{own}", system, own) for own in system.seeds]
    return [Run(system.name, system, system.seeds[0] if system.seeds else seed)]


def start_of(config: ExperimentConfig, run: Run) -> Run | None:
    """The run that a run starts from: the only one of that system, or the one of the same domain or seed.

    Raises:
        InputError: if there are several and none of them fits.
    """
    if run.system.start is None:
        return None
    return fitting_run(run, runs_of(config, run.system.start), f"{config.path}: train: systems")


def fitting_run(run: Run, candidates: Sequence[Run], where: str) -> Run:
    """The run of another system that one starts from: its only one, or that of the same domain or seed.

    Raises:
        InputError: if there are several and none of them fits.
    """
    if len(candidates) == 1:
        return candidates[0]
    for candidate in candidates:
        # Of a system with one run a domain, the seeds are all the same.
        if (candidate.domain, candidate.seed) == (run.domain if candidate.domain else None, run.seed):
            return candidate
    raise InputError(
        f"{where}: {run.system.name}: from: no run of {run.system.start!r} has the seed or "
        f"domain of {run.name}; there are {', '.join(candidate.name for candidate in candidates)}"
    )


def outputs_of(config: ExperimentConfig) -> dict[str, dict[str, Any]]:
    """The translations under ``translate: outputs``, each with the options of ``translate: common`` first.

    Raises:
        InputError: naming a key that is not allowed or missing.
    """
    where = f"{config.path}: translate"
    outputs = named_entries(config.translate, "outputs", where, others=["examples"])
    for name, options in outputs.items():
        if "system" not in options:
            raise InputError(f"{where}: outputs: {name}: the key 'system' is missing")
    return outputs


def output_runs_of(config: ExperimentConfig, name: str) -> list[OutputRun]:
    """What an output expands to, or the one output run of this name.

    Raises:
        InputError: if there is no such output, run or system.
    """
    where = f"{config.path}: translate: outputs"
    output, separator, _ = name.partition("@")
    outputs = outputs_of(config)
    if output not in outputs:
        raise InputError(f"{where}: no {name!r}; there are {', '.join(outputs)}")
    options = dict(outputs[output])
    system, gates = options.pop("system"), bool(options.pop("gates", False))
    if "@" in str(system):
        raise InputError(f"{where}: {output}: system: give the system's name, not that of its run {system!r}")
    runs = [
        OutputRun(output + run.name.removeprefix(run.system.name), output, run, options, gates)
        for run in runs_of(config, system)
    ]
    return [named_run(runs, name, f"{where}: {output}")] if separator else runs


def all_output_runs(config: ExperimentConfig) -> list[OutputRun]:
    """The output runs of all outputs, in the order of the file."""
    return [run for name in outputs_of(config) for run in output_runs_of(config, name)]


def baseline_of(config: ExperimentConfig) -> str | None:
    """The output that the others are compared with: ``evaluate: baseline``, or the first; None without outputs.

    Raises:
        InputError: if ``evaluate`` names an output that is not there, as the baseline or to be timed.
    """
    names, evaluate = list(outputs_of(config)), config.evaluate
    given = [("baseline", [evaluate.baseline] if evaluate.baseline else []), ("speed", evaluate.speed)]
    for key, wanted in given:
        for name in wanted:
            if name not in names:
                raise InputError(f"{config.path}: evaluate: {key}: no output {name!r}; there are {', '.join(names)}")
    return evaluate.baseline or next(iter(names), None)


def domains_of(config: ExperimentConfig) -> list[str]:
    """The experiment's domains, in order.

    Raises:
        InputError: if they are given by a folder that cannot be read.
    """
    if config.corpora.domains is not None:
        return sorted(config.corpora.domains)
    # Where models are trained, the corpora need not be.
    binarised = config.work_dir / "data-bin" / DOMAINS_FILE
    if binarised.is_file():
        return read_domain_names(binarised)
    return sorted(folder_entries(Path(config.corpora.folder or ""), (config.source_lang, config.target_lang)))


def named_run(runs: Sequence[_Named], name: str, where: str) -> _Named:
    """The run of this name.

    Raises:
        InputError: if there is none.
    """
    for run in runs:
        if run.name == name:
            return run
    raise InputError(f"{where}: no run {name!r}; there are {', '.join(run.name for run in runs)}")


def option_of(options: Mapping[str, Any], name: str) -> Any:
    """An option of fairseq's, whose words may be joined by hyphens or underscores; None if it is not given."""
    return options.get(name, options.get(name.replace("-", "_")))


def named_entries(section: Mapping[str, Any], key: str, where: str, others: Sequence[str] = ()) -> dict[str, dict]:
    """The entries under ``key`` of a section, each on top of the options under ``common``.

    Args:
        section: ``train`` or ``translate``.
        key: where its named entries are.
        where: the file and section, for messages.
        others: keys that are allowed besides and left alone.

    Raises:
        InputError: naming a key or name that is not allowed, or a value that is no mapping.
    """
    allowed = sorted({"common", key, *others})
    for name in section:
        if name not in allowed:
            raise InputError(f"{where}: unknown key {name!r}; allowed are {', '.join(allowed)}")
    common = as_mapping(section.get("common") or {}, f"{where}: common")
    entries = as_mapping(section.get(key) or {}, f"{where}: {key}")
    for name in entries:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(f"{where}: {key}: {name!r} is no name; use letters, digits, '-', '_' and '.' only")
    return {name: {**common, **as_mapping(entry or {}, f"{where}: {key}: {name}")} for name, entry in entries.items()}


def _read_system(name: str, entry: Mapping[str, Any], where: str) -> System:
    options = dict(entry)
    system = System(
        name,
        start=_take(options, "from", str, None, where),
        uses_teacher=_take(options, "uses_teacher", bool, False, where),
        seeds=_seeds(options.pop("seeds", []), where),
        per_domain=_take(options, "per_domain", bool, False, where),
        data=Path(folder) if (folder := _take(options, "data", str, None, where)) else None,
        options=options,
    )
    if system.per_domain and system.seeds:
        raise InputError(f"{where}: seeds: a system that is trained per_domain has one run a domain; take seeds out")
    if system.seeds and option_of(options, "seed") is not None:
        raise InputError(f"{where}: seed: would undo seeds; take it out")
    if system.per_domain and option_of(options, "train-domains") is not None:
        raise InputError(f"{where}: train-domains: per_domain chooses the domain of each run; take it out")
    return system


def _with_starts(systems: Mapping[str, System], name: str, where: str) -> list[System]:
    """A system after the one that it starts from, that after its own, and so on."""
    chain = [systems[name]]
    while (start := chain[0].start) is not None:
        if start not in systems:
            raise InputError(f"{where}: {chain[0].name}: from: no system {start!r}; there are {', '.join(systems)}")
        if start in (system.name for system in chain):
            raise InputError(f"{where}: {chain[0].name}: from: {start!r} starts from {chain[0].name!r} in turn")
        chain.insert(0, systems[start])
    return chain


def _take(options: dict[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    """Take one of our own keys out of fairseq's options."""
    value = options.pop(key, None)
    if value is None:
        return default
    if not isinstance(value, kind):
        words = {bool: "true or false", str: "text"}
        raise InputError(f"{where}: {key}: expected {words[kind]}, got {value!r}")
    return value


def _seeds(value: Any, where: str) -> tuple[int, ...]:
    seeds = value if isinstance(value, list) else [value]
    # isinstance(True, int) holds.
    if not all(type(seed) is int and seed >= 0 for seed in seeds) or len(set(seeds)) < len(seeds):
        raise InputError(f"{where}: seeds: expected different whole numbers, such as [1, 2, 3], got {value!r}")
    return tuple(seeds)
