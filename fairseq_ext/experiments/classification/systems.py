"""The systems of an experiment file of classifiers, and their runs.

They are those of :mod:`fairseq_ext.recipes.config`, of two sorts. A *base* is a masked language model: one that is
trained, or a ``checkpoint`` that is there already. What starts ``from`` a base has an arch ``roberta_houlsby_adapter*``
and is trained once for each task: its runs are ``full@sst2``, ``full@trec`` and so on, with several seeds
``full@sst2@1``. Of such a run, ``domain`` is the name of the task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.engine.fairseq_cli import check_counts, option_of
from fairseq_ext.experiments.systems import take
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.sections import check_choice
from fairseq_ext.modules.tunings import ARCHITECTURE, DEFAULT_BOTTLENECK_DIM, DEFAULT_TUNING, TUNINGS
from fairseq_ext.recipes import config as systems
from fairseq_ext.recipes.config import Run, System, expand

_CHANGING_BASE = ("top", "full")
_COUNTED = ("batch-size", "update-freq", "max-epoch", "max-update", "top-layers", "bottleneck-dim")


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
        return not str(option_of(self.system.options, "arch")).startswith(ARCHITECTURE)

    @property
    def tuning(self) -> str | None:
        """Which parameters are trained for a task, one of ``TUNINGS``; None for a base."""
        return None if self.is_base else str(option_of(self.system.options, "tuning") or DEFAULT_TUNING)

    @property
    def bottleneck_dim(self) -> int | None:
        """How wide its adapters are; None without adapters."""
        if self.tuning != "adapters":
            return None
        return int(option_of(self.system.options, "bottleneck-dim") or DEFAULT_BOTTLENECK_DIM)

    @property
    def top_layers(self) -> int | None:
        """How many layers are trained; None if that is not what chooses the parameters."""
        return int(option_of(self.system.options, "top-layers")) if self.tuning == "top" else None

    def runs(self, seed: int) -> list[Run]:
        """Its runs, one for each task and seed; ``seed`` is for a system without seeds of its own."""
        runs = expand(self.system, seed, ())
        return runs if self.is_base else [_for_task(run, task) for run in runs for task in self.tasks]


def read_systems(section: Mapping[str, Any], tasks: Sequence[str], where: str) -> dict[str, RobertaSystem]:
    """The systems of a section ``train``, in the order of the file but none before the one that it starts from.

    Args:
        section: its content.
        tasks: the experiment's.
        where: the file and ``train``, for messages.

    Raises:
        InputError: naming a key, value, system or task that cannot be used.
    """
    plain = systems.read_systems(section, where)
    found = {name: _read_system(system, tasks, f"{where}: systems: {name}") for name, system in plain.items()}
    bases = [name for name, system in found.items() if system.is_base]
    for name, system in found.items():
        if not system.is_base and system.system.start not in bases:
            raise InputError(
                f"{where}: systems: {name}: from: {system.system.start!r} is no masked language model; tasks start "
                f"from one, and there are {', '.join(bases) or 'none'}"
            )
    return found


def check_tasks(names: Sequence[str], allowed: Sequence[str], where: str) -> None:
    """Raise unless all are allowed, and none is there twice.

    Raises:
        InputError: naming ``where`` and the task.
    """
    for name in names:
        check_choice(name, allowed, where)
    if len(set(names)) < len(names):
        raise InputError(f"{where}: a task is named twice")


def _for_task(run: Run, task: str) -> Run:
    """The run ``SYSTEM@TASK`` of a system's run, which may have the name of its seed at the end."""
    seed = run.name.removeprefix(run.system.name)
    return dataclasses.replace(run, name=f"{run.system.name}@{task}{seed}", domain=task)


def _read_system(system: System, tasks: Sequence[str], where: str) -> RobertaSystem:
    if system.uses_teacher or system.per_domain:
        key = "uses_teacher" if system.uses_teacher else "per_domain"
        raise InputError(f"{where}: {key}: is for translation; take it out")
    options = dict(system.options)
    own = {
        "tasks": options.pop("tasks", None),
        "in_sequence": take(options, "in_sequence", bool, None, where),
        "checkpoint": take(options, "checkpoint", str, None, where),
    }
    system = system.model_copy(update={"options": options})
    if RobertaSystem(system).is_base:
        return _read_base(system, own, where)
    return _read_task_system(system, own, tasks, where)


def _read_base(system: System, own: Mapping[str, Any], where: str) -> RobertaSystem:
    for key in ("tasks", "in_sequence"):
        if own[key] is not None:
            raise InputError(f"{where}: {key}: goes with an arch {ARCHITECTURE}*; take it out")
    checkpoint = own["checkpoint"]
    if checkpoint is not None and (system.start or system.seeds or system.tune):
        raise InputError(f"{where}: checkpoint: is not trained, so it has no from, seeds or tune; take them out")
    return RobertaSystem(system, checkpoint=Path(checkpoint) if checkpoint else None)


def _read_task_system(system: System, own: Mapping[str, Any], tasks: Sequence[str], where: str) -> RobertaSystem:
    if system.start is None:
        raise InputError(f"{where}: from: is missing; tasks are learned on a trained masked language model")
    for key, wrong in (("checkpoint", own["checkpoint"]), ("data", system.data)):
        if wrong is not None:
            raise InputError(f"{where}: {key}: is for a base; take it out")
    chosen = list(tasks) if own["tasks"] is None else own["tasks"]
    if not isinstance(chosen, list) or not chosen:
        raise InputError(f"{where}: tasks: expected a list of tasks, got {shown(chosen)}")
    check_tasks(chosen, tasks, f"{where}: tasks")
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
        if option_of(model.system.options, key) is None:
            raise InputError(f"{where}: {key}: is missing")
    check_counts(model.system.options, _COUNTED, where)
    if all(option_of(model.system.options, key) is None for key in ("max-epoch", "max-update")):
        raise InputError(f"{where}: max-epoch: is missing; the learning rate falls to 0 at the end of the last epoch")
