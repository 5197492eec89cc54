"""Systems, runs, sweep and measurements of an experiment file of classifiers.

Systems are those of :mod:`fairseq_ext.experiment.runs`, of two sorts. A *base* is a masked language model: one that is
trained, or a ``checkpoint`` that is there already. What starts ``from`` a base has an arch ``roberta_houlsby_adapter*``
and is trained once for each task: its runs are ``full@sst2``, ``full@trec`` and so on, with several seeds
``full@sst2@1``. Of such a run, ``domain`` is the name of the task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.classification_config import ClassificationExperiment
from fairseq_ext.experiment.runs import Run, System, expand, fitting_run, named_run, option_of, systems_of
from fairseq_ext.experiment.yaml_sections import check_choice, check_numbers, read_section

ARCH = "roberta_houlsby_adapter"
TUNINGS = ("adapters", "norms", "top", "full")
_CHANGING_BASE = ("top", "full")
_DEFAULT_WIDTH = 64  # that of the model


@dataclass(frozen=True)
class RobertaSystem:
    """A system and what only these experiments have.

    Attributes:
        system: what is trained; its options are fairseq-train's.
        tasks: the tasks that it is trained for, in order; none for a base.
        in_sequence: whether the run of each task starts from that of the task before, so that the last file has all.
        checkpoint: a base that takes the place of a training.
    """

    system: System
    tasks: tuple[str, ...] = ()
    in_sequence: bool = False
    checkpoint: Path | None = None

    @property
    def is_base(self) -> bool:
        """Whether it is a masked language model, and not trained for tasks."""
        return not str(option_of(self.system.options, "arch")).startswith(ARCH)

    @property
    def tuning(self) -> str | None:
        """Which parameters are trained for a task, one of ``TUNINGS``; None for a base."""
        return None if self.is_base else str(option_of(self.system.options, "tuning") or TUNINGS[0])

    @property
    def bottleneck_dim(self) -> int | None:
        """How wide its adapters are; None without adapters."""
        if self.tuning != "adapters":
            return None
        return int(option_of(self.system.options, "bottleneck-dim") or _DEFAULT_WIDTH)

    @property
    def top_layers(self) -> int | None:
        """How many layers are trained; None if that is not what chooses the parameters."""
        return int(option_of(self.system.options, "top-layers")) if self.tuning == "top" else None


@dataclass(frozen=True)
class Sweep:
    """Trainings of one system that differ in one option, all from the base.

    Attributes:
        system: the system.
        option: of fairseq-train.
        values: of the option.
        tasks: that it is trained for.
    """

    system: str
    option: str
    values: list[float]
    tasks: list[str]


@dataclass(frozen=True)
class Ablation:
    """Trained adapters left out of spans of layers: of which system, and of which of its tasks (by default all)."""

    system: str
    tasks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Evaluation:
    """What is measured beyond the metrics of the tasks, and how.

    Attributes:
        ablation: see :class:`Ablation`; None for none.
        batch_size: sentences in a batch.
        cpu: whether to leave a GPU alone.
        reading: Markdown file beside the experiment file, with words on the results.
    """

    ablation: Ablation | None = None
    batch_size: int = 64
    cpu: bool = False
    reading: str | None = None


def roberta_systems_of(config: ClassificationExperiment) -> dict[str, RobertaSystem]:
    """The systems under ``train: systems``, in the order of the file but none before the one that it starts from.

    Raises:
        InputError: naming a key, value, system or task that cannot be used.
    """
    where = f"{config.path}: train: systems"
    systems = {
        name: _read_system(system, list(config.tasks), f"{where}: {name}")
        for name, system in systems_of(config).items()
    }
    bases = [name for name, system in systems.items() if system.is_base]
    for name, system in systems.items():
        if not system.is_base and system.system.start not in bases:
            raise InputError(
                f"{where}: {name}: from: {system.system.start!r} is no masked language model; tasks start from one, "
                f"and there are {', '.join(bases) or 'none'}"
            )
    return systems


def roberta_system_of(config: ClassificationExperiment, name: str) -> RobertaSystem:
    """A system by its name or that of one of its runs.

    Raises:
        InputError: if there is none of this name.
    """
    systems, system = roberta_systems_of(config), name.partition("@")[0]
    if system not in systems:
        raise InputError(f"{config.path}: train: systems: no {system!r}; there are {', '.join(systems) or 'none'}")
    return systems[system]


def roberta_runs_of(config: ClassificationExperiment, name: str) -> list[Run]:
    """The runs of a system, one for each task and seed, or the one run of this name.

    Raises:
        InputError: if there is no such system or run.
    """
    system = roberta_system_of(config, name)
    runs = expand(system.system, config.seed, ())
    if not system.is_base:
        runs = [_for_task(run, task) for run in runs for task in system.tasks]
    if "@" not in name:
        return runs
    return [named_run(runs, name, f"{config.path}: train: systems: {system.system.name}")]


def task_runs_of(config: ClassificationExperiment) -> list[Run]:
    """The runs of all systems that are trained for tasks, in order; not those of the sweep."""
    systems = roberta_systems_of(config)
    return [run for name, system in systems.items() if not system.is_base for run in roberta_runs_of(config, name)]


def roberta_start_of(config: ClassificationExperiment, run: Run) -> Run | None:
    """The run that a run starts from: the base's or, in a sequence, that of the task before."""
    if run.system.start is None:
        return None
    system = roberta_systems_of(config).get(run.system.name)  # a run of the sweep is of none
    if system is not None and system.in_sequence:
        runs = [other for other in roberta_runs_of(config, run.system.name) if other.seed == run.seed]
        if number := runs.index(run):
            return runs[number - 1]
    return fitting_run(run, roberta_runs_of(config, run.system.start), f"{config.path}: train: systems")


def sweep_of(config: ClassificationExperiment) -> Sweep | None:
    """The section ``sweep``; None if the file has none.

    Raises:
        InputError: naming a key or value that cannot be used.
    """
    if not config.sweep:
        return None
    where = f"{config.path}: sweep"
    sweep: Sweep = read_section(Sweep, config.sweep, where)
    system = _task_system(config, sweep.system, f"{where}: system")
    _check_tasks(sweep.tasks, system.tasks, f"{where}: tasks")
    if len(set(sweep.values)) < len(sweep.values):
        raise InputError(f"{where}: values: a value is given twice")
    return sweep


def sweep_runs_of(config: ClassificationExperiment) -> dict[str, dict[float, Run]]:
    """The runs of the sweep by task and value, with the first seed of the system.

    Their systems have names of their own, such as ``adapters-64.adapter-init-scale.1e-07``.
    """
    sweep = sweep_of(config)
    if sweep is None:
        return {}
    system = roberta_system_of(config, sweep.system).system
    seed = expand(system, config.seed, ())[0].seed
    varied = {value: _vary(system, sweep.option, f"{value:g}") for value in sweep.values}
    return {
        task: {value: Run(f"{other.name}@{task}", other, seed, task) for value, other in varied.items()}
        for task in sweep.tasks
    }


def evaluation_of(config: ClassificationExperiment) -> Evaluation:
    """The section ``evaluate``.

    Raises:
        InputError: naming a key or value that cannot be used.
    """
    where = f"{config.path}: evaluate"
    entries = {key: value for key, value in config.evaluate.items() if value is not None}
    given = {}
    if "ablation" in entries:
        given["ablation"] = _ablation(config, entries.pop("ablation"), f"{where}: ablation")
    evaluation: Evaluation = read_section(Evaluation, entries, where, given=given)
    check_numbers({"batch_size": evaluation.batch_size}, where)
    return evaluation


def _ablation(config: ClassificationExperiment, value: Any, where: str) -> Ablation:
    ablation: Ablation = read_section(Ablation, value, where)
    system = _task_system(config, ablation.system, f"{where}: system")
    if system.tuning != "adapters":
        raise InputError(f"{where}: system: {ablation.system!r} has no adapters to leave out; choose one with adapters")
    _check_tasks(ablation.tasks, system.tasks, f"{where}: tasks")
    return dataclasses.replace(ablation, tasks=ablation.tasks or list(system.tasks))


def _task_system(config: ClassificationExperiment, name: str, where: str) -> RobertaSystem:
    systems = {key: system for key, system in roberta_systems_of(config).items() if not system.is_base}
    check_choice(name, list(systems), where)
    return systems[name]


def _check_tasks(names: Sequence[str], allowed: Sequence[str], where: str) -> None:
    for name in names:
        check_choice(name, allowed, where)
    if len(set(names)) < len(names):
        raise InputError(f"{where}: a task is named twice")


def _for_task(run: Run, task: str) -> Run:
    """The run ``SYSTEM@TASK`` of a system's run, which may have the name of its seed at the end."""
    seed = run.name.removeprefix(run.system.name)
    return dataclasses.replace(run, name=f"{run.system.name}@{task}{seed}", domain=task)


def _vary(system: System, option: str, value: str) -> System:
    """The system with another value of an option, which may be written with hyphens or underscores."""
    kept = {key: given for key, given in system.options.items() if key.replace("_", "-") != option.replace("_", "-")}
    return dataclasses.replace(system, name=f"{system.name}.{option}.{value}", options={**kept, option: value})


def _read_system(system: System, tasks: Sequence[str], where: str) -> RobertaSystem:
    if system.uses_teacher or system.per_domain:
        key = "uses_teacher" if system.uses_teacher else "per_domain"
        raise InputError(f"{where}: {key}: is for translation; take it out")
    options = dict(system.options)
    own = {key: options.pop(key, None) for key in ("tasks", "in_sequence", "checkpoint")}
    system = dataclasses.replace(system, options=options)
    if RobertaSystem(system).is_base:
        return _read_base(system, own, where)
    return _read_task_system(system, own, tasks, where)


def _read_base(system: System, own: Mapping[str, Any], where: str) -> RobertaSystem:
    for key in ("tasks", "in_sequence"):
        if own[key] is not None:
            raise InputError(f"{where}: {key}: goes with an arch {ARCH}*; take it out")
    checkpoint = own["checkpoint"]
    if checkpoint is not None and not isinstance(checkpoint, str):
        raise InputError(f"{where}: checkpoint: expected the path of a checkpoint, got {checkpoint!r}")
    if checkpoint is not None and (system.start or system.seeds):
        raise InputError(f"{where}: checkpoint: is not trained, so it has no from and no seeds; take them out")
    return RobertaSystem(system, checkpoint=Path(checkpoint) if checkpoint else None)


def _read_task_system(system: System, own: Mapping[str, Any], tasks: Sequence[str], where: str) -> RobertaSystem:
    if system.start is None:
        raise InputError(f"{where}: from: is missing; tasks are learned on a trained masked language model")
    for key, wrong in (("checkpoint", own["checkpoint"]), ("data", system.data)):
        if wrong is not None:
            raise InputError(f"{where}: {key}: is for a base; take it out")
    if not isinstance(own["in_sequence"], bool | None):
        raise InputError(f"{where}: in_sequence: expected true or false, got {own['in_sequence']!r}")
    chosen = list(tasks) if own["tasks"] is None else own["tasks"]
    if not isinstance(chosen, list) or not chosen:
        raise InputError(f"{where}: tasks: expected a list of tasks, got {chosen!r}")
    _check_tasks(chosen, tasks, f"{where}: tasks")
    model = RobertaSystem(system, tuple(chosen), bool(own["in_sequence"]))
    check_choice(str(model.tuning), TUNINGS, f"{where}: tuning")
    if model.in_sequence and model.tuning in _CHANGING_BASE:
        raise InputError(f"{where}: in_sequence: tuning: {model.tuning} changes the base, which the tasks share")
    _check_needed(model, where)
    return model


def _check_needed(model: RobertaSystem, where: str) -> None:
    """Check for the options of fairseq's that this program reads itself."""
    needed = ["batch-size", *(["top-layers"] if model.tuning == "top" else [])]
    for key in needed:
        value = option_of(model.system.options, key)
        if value is None:
            raise InputError(f"{where}: {key}: is missing")
        if type(value) is not int or value < 1:
            raise InputError(f"{where}: {key}: expected a whole number above 0, got {value!r}")
    if all(option_of(model.system.options, key) is None for key in ("max-epoch", "max-update")):
        raise InputError(f"{where}: max-epoch: is missing; the learning rate falls to 0 at the end of the last epoch")
