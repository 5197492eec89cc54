"""Training a system of an experiment: ``fairseq-train`` as a step that can be stopped and resumed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fairseq_ext.engine.fairseq_cli import as_arguments, run_fairseq, run_training
from fairseq_ext.engine.fairseq_options import FairseqCommand
from fairseq_ext.engine.option_files import check_training_options, named_files, options_in, without
from fairseq_ext.engine.origins import EXTRA, extra_of
from fairseq_ext.engine.processes import distributed_arguments
from fairseq_ext.engine.progress import number_of
from fairseq_ext.engine.steps import Step, options_before
from fairseq_ext.recipes.config import Run

BEST_CHECKPOINT = "checkpoint_best.pt"
LOG_FILE = "train.log"
_LENGTHS = ("max-epoch", "max-update")
# Of fairseq's ways to choose the learning rate those that only look at what is done, its default first.
_SCHEDULERS = ("fixed", "inverse_sqrt", "step", "manual")
# What fairseq does again at every start, or counts anew; and without its last checkpoint it cannot go on.
_ONLY_AT_ONCE = ("restore-file", "reset-", "patience", "no-last-checkpoints", "use-sharded-state")

_VALID = re.compile(r"epoch (\d+) \| valid on 'valid' subset \|.*?\| ppl (\S+)")
_TRAIN = re.compile(r"epoch (\d+) \|.*\| train_wall (\S+).*\| wall (\d+)")


class InFolder(Protocol):
    """An experiment, of which only the folder matters."""

    @property
    def work_dir(self) -> Path:
        """Where everything is written."""


def system_dir(config: InFolder, run: str) -> Path:
    """Where a trained run of a system lies."""
    return config.work_dir / "systems" / run


def best_checkpoint(config: InFolder, run: str) -> Path:
    """The checkpoint of a trained run to start from or translate with."""
    return system_dir(config, run) / BEST_CHECKPOINT


def train_step(
    config: InFolder,
    run: Run,
    inputs: Sequence[Path],
    arguments: Sequence[str],
    options: Mapping[str, Any],
    *,
    extra: Sequence[str] = (),
    foreseen: Sequence[str] = (),
    derived: Callable[[], Sequence[str]] = tuple,
) -> Step:
    """A step that runs ``fairseq-train``, resumed where it was stopped and joined by further processes.

    One that ended goes on where it did when it is to be longer, see :func:`what_keeps_from_going_on`.

    Args:
        config: the experiment.
        run: what is trained.
        inputs: what the result depends on, the data directory first; files that ``arguments`` name are added.
        arguments: fairseq-train's, but for data, checkpoints, logs and processes.
        options: what the result depends on besides; see :class:`~fairseq_ext.engine.steps.Step`. Under ``system`` those
            of the file, under ``extra`` those of the command line.
        extra: more arguments, from this program's own command line.
        foreseen: the part of ``derived`` that decides which options fairseq-train has.
        derived: further arguments, which follow from the inputs and are asked for when these are there; what is given
            in ``arguments`` too is taken from there.

    Raises:
        InputError: naming an option that would leave the training without its result or its start.
    """
    given = [*arguments, *extra]
    check_training_options(given, run.name)
    inputs = [*inputs, *named_files(given, run.name, inputs)]

    def command() -> list[str]:
        return [str(inputs[0]), *derived(), *given, *distributed_arguments(given)]

    def build(folder: Path) -> None:
        run_training(run.name, [*command(), "--save-dir", str(folder)], folder / LOG_FILE)
        for leftover in folder.glob("*.tmp"):  # of a run that was killed as it saved
            leftover.unlink()

    def join(folder: Path) -> None:
        run_fairseq("train", [*command(), "--save-dir", str(folder), "--log-format", "simple"])

    return Step(
        system_dir(config, run.name),
        inputs,
        options,
        build,
        resumable=True,
        trains=True,
        join=join,
        results=[BEST_CHECKPOINT],
        commands=[FairseqCommand("train", (*foreseen, *arguments), run.system.place, tuple(extra))],
        obstacle=lambda before: what_keeps_from_going_on(before, options, command),
    )


def what_keeps_from_going_on(
    before: Mapping[str, Any], now: Mapping[str, Any], command: Callable[[], Sequence[str]]
) -> str | None:
    """Why a training cannot go on from the last checkpoint of one with other options, but has to begin again.

    It can, and has the weights then that it would have if it had been so long from the start, where nothing but
    ``max-epoch`` and ``max-update`` are other, none of them is lower, and all else follows from the epochs and updates
    done, not from those to come.

    Args:
        before: options of the step that trained.
        now: those of the step to run.
        command: makes its command line.

    Returns:
        None if it can go on; else what of its options does not allow it, empty where that is what has changed.
    """
    if not isinstance(before.get("system"), dict):  # edited by somebody
        return ""
    (rest_before, lengths_before), (rest, lengths) = _apart(before), _apart(now)
    if rest_before != rest or any(new < old for new, old in zip(lengths, lengths_before, strict=True)):
        return ""
    given = dict(options_in(command()))
    scheduler = given.get("lr-scheduler", _SCHEDULERS[0])
    if scheduler not in _SCHEDULERS:
        return f"lr-scheduler {scheduler} depends on how long a training is"
    return next((f"{name} keeps it from going on" for name in given if name.startswith(_ONLY_AT_ONCE)), None)


def _apart(options: Mapping[str, Any]) -> tuple[Any, list[float]]:
    """What a training depends on less its length, as JSON keeps it, and the most epochs and updates it may have."""
    system, extra = options["system"], extra_of(options)
    rest = {key: value for key, value in system.items() if key.replace("_", "-") not in _LENGTHS}
    others = {**options, "system": rest, EXTRA: without(extra, _LENGTHS)}
    given = [*as_arguments(system), *extra]
    return json.loads(json.dumps(others)), [number_of(given, name) or math.inf for name in _LENGTHS]


def remembered_extra(output: Path, given: Mapping[str, Any], section: str | None = None) -> list[str]:
    """The options of a command line that a directory is being made with, or was: they count until others are given.

    What the file says otherwise since then counts as it says.

    Args:
        output: the step's directory.
        given: the options that the file gives.
        section: where among the step's options those of the file are; None where they are all.
    """
    before = options_before(output)
    then = before.get(section) if section else before
    then = then if isinstance(then, dict) else {}
    changed = {name for name in {*then, *given} if name != EXTRA and then.get(name) != given.get(name)}
    return without(extra_of(before), {name.replace("_", "-") for name in changed})


@dataclass(frozen=True)
class TrainingLog:
    """What fairseq reports at the ends of epochs.

    Attributes:
        valid: perplexity of the validation set by epoch, counted from 1.
        seconds: of the training, interrupted parts included; None if no epoch has ended.
    """

    valid: Mapping[int, float]
    seconds: int | None

    @property
    def best_epoch(self) -> int | None:
        """With the lowest perplexity; None without any."""
        return min(self.valid, key=lambda epoch: self.valid[epoch], default=None)


def read_training_log(path: Path) -> TrainingLog:
    """Read the log file of a training, which may have been resumed; of a repeated epoch the last counts.

    Raises:
        OSError: if it cannot be read.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    valid = {int(epoch): float(ppl) for epoch, ppl in _VALID.findall(text)}
    seconds = [int(wall) for _, _, wall in _TRAIN.findall(text)]
    return TrainingLog(valid, seconds[-1] if seconds else None)
