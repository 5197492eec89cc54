"""Shared parts of experiment files: systems, their runs, and the experiment.

The file of a recipe is a subclass of :class:`Experiment`. Its sections are subclasses of
:class:`~fairseq_ext.base.sections.Section`. A system is a :class:`System`, or a subclass with additional keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.base.fairseq_cli import check_option, option_of
from fairseq_ext.base.sections import File, OneOrMore, Section, Seed, Several, read_model
from fairseq_ext.experiments.grids import check_grid, combinations, with_values

MOST_ENTRIES = 200
_NOT_IN_FILE = ("name", "options", "place")  # fields of entries that are not keys
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"  # used as a directory name; @ separates the run


def _option_name(name: str) -> str:
    try:
        check_option(name, "")
    except InputError as error:
        raise ValueError(str(error).removeprefix(": ")) from None
    return name


def _option_value(value: Any) -> Any:
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, list | dict) for item in items):
        raise ValueError(f"expected a single value or a list of them, got {shown(value)}")
    return value


OptionName = Annotated[str, AfterValidator(_option_name)]
OPTION_SCHEMA: dict[str, Any] = {"type": ["string", "number", "boolean", "null", "array"]}
OptionValue = Annotated[Any, AfterValidator(_option_value), WithJsonSchema(OPTION_SCHEMA)]
Tune = Annotated[
    Mapping[OptionName, Any],
    AfterValidator(check_grid),
    WithJsonSchema({"type": ["object", "null"], "additionalProperties": {"type": "array"}}),
]


@dataclass(frozen=True)
class Place:
    """Location and spelling of an entry's options in a file, for error messages."""

    where: str = ""  # file, section and name of the entry
    entry: tuple[str, ...] = ()  # of its own
    common: tuple[str, ...] = ()  # from ``common``
    tuned: tuple[str, ...] = ()  # from ``tune``

    def __call__(self, option: str) -> str:
        """Return the place of an option, spelled with hyphens. An option that is not given belongs to the entry."""
        if option in self.tuned:
            return f"{self('tune')}: {option}"
        for place, names in ((self.where, self.entry), (f"{self.where} (under common)", self.common)):
            for name in names:
                if name.replace("_", "-") == option:
                    return f"{place}: {name}"
        return f"{self.where}: {option}" if option else self.where


class Measuring(Section):
    """Measurement options. Recipes add fields."""

    cpu: bool = False
    """Whether to run on the CPU even if there is a GPU."""


class Entry(Section):
    """A named entry of a section, merged with ``common``. Further keys are fairseq options."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": OPTION_SCHEMA})

    name: SkipJsonSchema[str]
    options: SkipJsonSchema[dict[OptionName, OptionValue]] = Field(default_factory=dict)
    place: SkipJsonSchema[Place] = Field(default_factory=Place, repr=False)

    @classmethod
    def merge_common(cls, section: Any, key: str, where: str) -> Any:
        """Merge the entries under a key of a section with its ``common``. Pydantic reports invalid ones later."""
        if not isinstance(section, dict):
            return section
        section = {name: {} if value is None else value for name, value in section.items()}
        common, entries = section.get("common", {}), section.get(key, {})
        if not isinstance(common, dict) or not isinstance(entries, dict):
            return section
        merged = {
            name: cls._merged(name, common, entry or {}, f"{where}: {name}") if isinstance(entry or {}, dict) else entry
            for name, entry in entries.items()
        }
        return {**section, key: merged}

    @classmethod
    def _merged(cls, name: str, common: Mapping[str, Any], entry: Mapping[str, Any], where: str) -> dict[str, Any]:
        keys = cls.keys() - set(_NOT_IN_FILE)
        merged = {**common, **entry}
        fields = {key: value for key, value in merged.items() if key in keys and value is not None}
        options = {key: value for key, value in merged.items() if key not in keys}
        tuned = fields["tune"] if isinstance(fields.get("tune"), dict) else {}
        place = Place(where, tuple(entry), tuple(common), tuple(str(option).replace("_", "-") for option in tuned))
        return {**fields, "name": name, "options": options, "place": place}

    @model_validator(mode="after")
    def _check_spelling(self) -> Entry:
        seen: dict[str, str] = {}
        for name in self.options:
            first = seen.setdefault(name.replace("_", "-"), name)
            if first != name:
                raise ValueError(f"{first} and {name} are the same option; keep one of them")
        return self


class System(Entry):
    """A system to train. Keys that are not listed are options of fairseq-train."""

    refused: ClassVar[Collection[str]] = ()
    """Fields that the recipe does not support."""

    start: str | None = Field(None, alias="from")
    """Name of the system whose best checkpoint initialises this one."""
    uses_teacher: bool = False
    """Whether to train with the labels of the domain classifier."""
    seeds: Several[Seed] = ()
    """Seeds, with one training run each; by default one run with the seed of the experiment."""
    per_domain: bool = False
    """Whether to train a separate model on each domain."""
    data: File | None = None
    """Binarised training data to use instead of the experiment's; the subwords must be the same."""
    tune: Tune = Field(default_factory=dict)
    """Option values to try. The system is trained with the best by validation."""

    @model_validator(mode="after")
    def _take_first_tuned_values(self) -> System:
        for name in self.place.entry:
            if name.replace("_", "-") in self.tune:
                raise ValueError(f"{name}: is also under tune; remove it, or set tune: null")
        if not self.tune:
            return self
        return self.model_copy(update={"options": with_values(self.options, combinations(self.tune)[0])})

    @model_validator(mode="after")
    def _check_fields(self) -> System:
        for name in self.refused:
            if getattr(self, name):
                raise ValueError(f"{System.model_fields[name].alias or name}: is not supported by this kind; remove it")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: expected different whole numbers, such as [1, 2, 3], got {list(self.seeds)}")
        if self.per_domain and self.seeds:
            raise ValueError("seeds: a system with per_domain has one run per domain; remove seeds")
        if self.seeds and option_of(self.options, "seed") is not None:
            raise ValueError("seed: conflicts with seeds; remove it")
        if self.per_domain and option_of(self.options, "train-domains") is not None:
            raise ValueError("train-domains: per_domain sets the domain of each run; remove it")
        return self


SystemT = TypeVar("SystemT", bound=System)
System_co = TypeVar("System_co", bound=System, covariant=True)


class Train(Section, Generic[System_co]):
    """Systems to train."""

    common: dict[OptionName, Any] = Field(default_factory=dict)
    """Defaults for all systems."""
    systems: dict[Annotated[str, Field(pattern=NAME_PATTERN)], System_co] = Field(
        default_factory=dict, max_length=MOST_ENTRIES
    )
    """Systems by name. Their keys include fairseq-train options."""

    @model_validator(mode="before")
    @classmethod
    def _merge_common(cls, value: Any, info: ValidationInfo) -> Any:
        where = f"{(info.context or {}).get('path', '')}: train: systems"
        model = get_args(cls.model_fields["systems"].annotation)[1]
        if isinstance(model, TypeVar):
            model = System  # the recipe does not subclass it
        return model.merge_common(value, "systems", where)


class Experiment(Section, Generic[System_co]):
    """An experiment file. Recipes add sections."""

    work_dir: File
    """Directory for all output, relative to the current directory."""
    seed: Seed = 1
    """Random seed, also for training runs of systems without ``seeds``."""
    train: Train[System_co] = Field(default_factory=Train)
    """Systems to train."""
    compare: dict[str, OneOrMore[str]] = Field(default_factory=dict)
    """Baselines by system name; by default the pairs of the recipe."""
    _path: Path = PrivateAttr(Path())

    def model_post_init(self, context: Any) -> None:
        """Store the path of the file."""
        self._path = (context or {}).get("path", Path())

    @cached_property
    def systems(self) -> Mapping[str, System_co]:
        """Systems by name, in file order, but each after the system it starts from."""
        systems, ordered = self.listed_systems(), dict[str, System_co]()
        for name in systems:
            for system in _with_starts(systems, name):
                ordered.setdefault(system.name, system)
        return ordered

    def listed_systems(self) -> Mapping[str, System_co]:
        """Return the systems of the file. Recipes that add some, or options of some, override this method."""
        return self.train.systems

    @model_validator(mode="after")
    def _check_starts_and_compared(self) -> Experiment[System_co]:
        _ = self.systems  # raises ValueError if they cannot be ordered
        for system, baselines in self.compare.items():
            for name in (system, *baselines):
                if name not in self.compared_names:
                    raise ValueError(
                        f"compare: unknown system {name!r}; choose one of {', '.join(self.compared_names)}"
                    )
        return self

    @property
    def compared_names(self) -> Sequence[str]:
        """Names that can be compared: the systems, and other names that a recipe measures."""
        return list(self.systems)

    @property
    def path(self) -> Path:
        """Path of the experiment file."""
        return self._path

    def runs_of(self, name: str) -> list[Run]:
        """Return the runs of a system. Recipes with domains or tasks override this method."""
        return expand(self.systems[name], self.seed, ())

    @cached_property
    def runs(self) -> Mapping[str, Sequence[Run]]:
        """The runs of each system. Raises InputError if the domains are not known yet."""
        return {name: self.runs_of(name) for name in self.systems}

    @cached_property
    def all_runs(self) -> Sequence[Run]:
        """The runs of all systems, in order."""
        return [run for runs in self.runs.values() for run in runs]

    def start_of(self, run: Run) -> Run | None:
        """Return the run that a run starts from: the only run of its system, or that of the same domain or seed."""
        if run.system.start is None:
            return None
        candidates = self.runs_of(run.system.start)
        for candidate in candidates:
            # Systems trained per domain have one seed for all runs.
            fits = (candidate.domain, candidate.seed) == (run.domain if candidate.domain else None, run.seed)
            if fits or len(candidates) == 1:
                return candidate
        raise InputError(
            f"{self.path}: train: systems: {run.system.name}: from: {run.system.start!r} has no run with the seed or "
            f"domain of {run.name}, only {', '.join(other.name for other in candidates)}; give both systems the same"
        )


ExperimentT = TypeVar("ExperimentT", bound=Experiment)


def read_experiment(model: type[ExperimentT], content: Mapping[str, Any], path: Path) -> ExperimentT:
    """Make an experiment from the content of its file; raises the errors of :func:`read_model`."""
    return read_model(model, content, str(path), {"path": path})


def _with_starts(systems: Mapping[str, SystemT], name: str) -> list[SystemT]:
    """Return a system, preceded by the chain of systems that it starts from."""
    chain = [systems[name]]
    while (start := chain[0].start) is not None:
        where = f"train: systems: {chain[0].name}: from"
        if start not in systems:
            raise ValueError(f"{where}: unknown system {start!r}; choose one of {', '.join(systems)}")
        if start in (system.name for system in chain):
            raise ValueError(f"{where}: {start!r} already starts from {chain[0].name!r}; remove one")
        chain.insert(0, systems[start])
    return chain


@dataclass(frozen=True)
class Run:
    """One training run of a system."""

    name: str  # also of its directory: ``gad``, ``gad@2`` for one of several seeds, ``ft@LAW`` for a domain
    system: System
    seed: int
    domain: str | None = None  # training domain; None for all


def expand(system: System, seed: int, domains: Sequence[str]) -> list[Run]:
    """Return the runs of a system, one per domain or seed. ``seed`` is used if the system has no seeds."""
    if system.per_domain:
        return [Run(f"{system.name}@{domain}", system, seed, domain) for domain in domains]
    if len(system.seeds) > 1:
        return [Run(f"{system.name}@{number}", system, number) for number in system.seeds]
    return [Run(system.name, system, system.seeds[0] if system.seeds else seed)]


_Named = TypeVar("_Named", bound=Any)  # a run, or an object with the name of a run


def named_run(runs: Sequence[_Named], name: str, where: str) -> _Named:
    """Return the run with this name."""
    for run in runs:
        if run.name == name:
            return run
    raise InputError(f"{where}: unknown run {name!r}; choose one of {', '.join(run.name for run in runs)}")
