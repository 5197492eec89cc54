"""Systems of an experiment file of any kind, and the runs they stand for.

A *system* is an entry of ``train: systems``, a *run* one training of it: one a seed, or one a domain. Runs are named
after their system: ``gad``, ``gad@2`` for one of several seeds, ``ft@LAW`` for one of the domains.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fairseq_ext.engine.fairseq_cli import check_option, option_of
from fairseq_ext.experiments.grids import Grid, combinations, read_grid, with_values
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.sections import as_mapping, check_seed

# A name is a directory's, and @ sets its run apart.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Each of them is a training, or a pass over the test sets.
_MOST_ENTRIES, _MOST_SEEDS = 200, 100
_MOST_OPTIONS = 500
_TUNE = "tune"


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


_Named = TypeVar("_Named", bound=_HasName)


class Experiment(Protocol):
    """What experiments of every kind have: their file, their folder and their seed."""

    @property
    def path(self) -> Path: ...
    @property
    def work_dir(self) -> Path: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class Place:
    """Where a file gives the options of an entry, for messages.

    Attributes:
        where: file, section and name of the entry.
        own: the options that the entry gives itself, as they are spelled there.
        common: those that ``common`` gives to all.
        tuned: those of which several values are tried.
    """

    where: str = ""
    own: tuple[str, ...] = ()
    common: tuple[str, ...] = ()
    tuned: tuple[str, ...] = ()

    def __call__(self, option: str) -> str:
        """The place of an option, which is written with hyphens; what nobody gives is said of the entry."""
        if option in self.tuned:
            return f"{self(_TUNE)}: {option}"
        for place, names in ((self.where, self.own), (f"{self.where} (under common)", self.common)):
            for name in names:
                if name.replace("_", "-") == option:
                    return f"{place}: {name}"
        return f"{self.where}: {option}" if option else self.where


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
        tune: values of options to try; the best by validation are those that it is trained with.
        options: fairseq-train's; of those that are tuned, the first value.
        place: where the file gives them.
    """

    name: str
    start: str | None = None
    uses_teacher: bool = False
    seeds: tuple[int, ...] = ()
    per_domain: bool = False
    data: Path | None = None
    tune: Grid = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    place: Place = field(default=Place(), compare=False, repr=False, metadata={"in_file": False})


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


def read_systems(section: Mapping[str, Any], where: str) -> dict[str, System]:
    """The systems of a section ``train``, each with the options of ``train: common`` first.

    They come in the order of the file, but none before the one that it starts from.

    Args:
        section: its content.
        where: the file and ``train``, for messages.

    Raises:
        InputError: naming a key, value or system that cannot be used.
    """
    entries = named_entries(section, "systems", where, nested=[_TUNE])
    systems = {
        name: _read_system(name, entry, place_of(section, "systems", name, where)) for name, entry in entries.items()
    }
    ordered: dict[str, System] = {}
    for name in systems:
        for system in _with_starts(systems, name, f"{where}: systems"):
            ordered.setdefault(system.name, system)
    return ordered


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


def named_run(runs: Sequence[_Named], name: str, where: str) -> _Named:
    """The run of this name.

    Raises:
        InputError: if there is none.
    """
    for run in runs:
        if run.name == name:
            return run
    raise InputError(f"{where}: no run {name!r}; there are {', '.join(run.name for run in runs)}")


def named_entries(
    section: Mapping[str, Any], key: str, where: str, others: Sequence[str] = (), nested: Sequence[str] = ()
) -> dict[str, dict]:
    """The entries under ``key`` of a section, each on top of the options under ``common``.

    Args:
        section: ``train`` or ``translate``.
        key: where its named entries are.
        where: the file and section, for messages.
        others: keys that are allowed besides and left alone.
        nested: keys of an entry that are no options; what is under them is not looked at.

    Raises:
        InputError: naming a key or name that is not allowed, or a value that is no mapping, or not of options.
    """
    allowed = sorted({"common", key, *others})
    for name in section:
        if name not in allowed:
            raise InputError(f"{where}: unknown key {shown(name)}; allowed are {', '.join(allowed)}")
    common = as_mapping(section.get("common") or {}, f"{where}: common")
    entries = as_mapping(section.get(key) or {}, f"{where}: {key}")
    if len(entries) > _MOST_ENTRIES:
        raise InputError(f"{where}: {key}: {len(entries)} are more than {_MOST_ENTRIES}; write several files")
    for name in entries:
        if not _NAME.fullmatch(name):
            raise InputError(f"{where}: {key}: {shown(name)} is no name; use letters, digits, '-', '_' and '.' only")
    for name, entry in {"common": common, **{f"{key}: {name}": entry or {} for name, entry in entries.items()}}.items():
        options = as_mapping(entry, f"{where}: {name}")
        _check_options({option: options[option] for option in options if option not in nested}, f"{where}: {name}")
    merged = {name: {**common, **(entry or {})} for name, entry in entries.items()}
    for name, options in merged.items():
        _check_spelling(options, f"{where}: {key}: {name}")
    return merged


def place_of(section: Mapping[str, Any], key: str, name: str, where: str) -> Place:
    """The place of an entry's options; arguments as of :func:`named_entries`."""
    return Place(f"{where}: {key}: {name}", tuple(section[key][name] or ()), tuple(section.get("common") or ()))


def _check_spelling(options: Mapping[str, Any], where: str) -> None:
    """Refuse an option that is given with hyphens and with underscores: which of both counts is left to chance."""
    seen: dict[str, str] = {}
    for name in options:
        first = seen.setdefault(name.replace("_", "-"), name)
        if first != name:
            raise InputError(f"{where}: {first} and {name} are one option; keep one of them")


def _check_options(options: Mapping[str, Any], where: str) -> None:
    """Check that names and values can stand on a command line."""
    if len(options) > _MOST_OPTIONS:
        raise InputError(f"{where}: {len(options)} options are more than {_MOST_OPTIONS}, and than fairseq has")
    for name, value in options.items():
        check_option(name, where)
        if any(isinstance(item, list | dict) for item in (value if isinstance(value, list) else [value])):
            raise InputError(f"{where}: {name}: expected a single value or a list of such, got {shown(value)}")


def take(options: dict[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    """Take one of our own keys, text or true or false, out of fairseq's options.

    Raises:
        InputError: naming ``where``, the key and its value, if that is of another kind.
    """
    value = options.pop(key, None)
    if value is None:
        return default
    if not isinstance(value, kind):
        words = {bool: "true or false", str: "text"}
        raise InputError(f"{where}: {key}: expected {words[kind]}, got {shown(value)}")
    return value


def _read_system(name: str, entry: Mapping[str, Any], place: Place) -> System:
    where, options = place.where, dict(entry)
    tune = _read_tune(options.pop(_TUNE, None), place)
    if tune:
        options = with_values(options, combinations(tune)[0])
    system = System(
        name,
        start=take(options, "from", str, None, where),
        uses_teacher=take(options, "uses_teacher", bool, False, where),
        seeds=_seeds(options.pop("seeds", []), where),
        per_domain=take(options, "per_domain", bool, False, where),
        data=Path(folder) if (folder := take(options, "data", str, None, where)) else None,
        tune=tune,
        options=options,
        place=dataclasses.replace(place, tuned=tuple(tune)),
    )
    if system.per_domain and system.seeds:
        raise InputError(f"{where}: seeds: a system that is trained per_domain has one run a domain; take seeds out")
    if system.seeds and option_of(options, "seed") is not None:
        raise InputError(f"{where}: seed: would undo seeds; take it out")
    if system.per_domain and option_of(options, "train-domains") is not None:
        raise InputError(f"{where}: train-domains: per_domain chooses the domain of each run; take it out")
    return system


def _read_tune(section: Any, place: Place) -> Grid:
    """What is tuned; nothing if the file does not say."""
    if section is None:
        return {}
    grid = read_grid(section, place(_TUNE))
    for name in place.own:
        if name.replace("_", "-") in grid:
            raise InputError(f"{place.where}: {name}: is tuned; take it out, or write tune: null")
    return grid


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


def _seeds(value: Any, where: str) -> tuple[int, ...]:
    seeds = value if isinstance(value, list) else [value]
    # isinstance(True, int) holds.
    if not all(type(seed) is int for seed in seeds) or len(set(seeds)) < len(seeds):
        raise InputError(f"{where}: seeds: expected different whole numbers, such as [1, 2, 3], got {shown(value)}")
    for seed in seeds:
        check_seed(seed, f"{where}: seeds")
    if len(seeds) > _MOST_SEEDS:
        raise InputError(f"{where}: seeds: {len(seeds)} are more than {_MOST_SEEDS}; leave some out")
    return tuple(seeds)
