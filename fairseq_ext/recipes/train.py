"""Training a system of an experiment: ``fairseq-train`` as a step that can be stopped and resumed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_ext.engine.fairseq_cli import run_fairseq, run_training
from fairseq_ext.engine.fairseq_options import FairseqCommand, check_training_options, named_files
from fairseq_ext.engine.processes import distributed_arguments
from fairseq_ext.engine.steps import Step
from fairseq_ext.recipes.config import Experiment, Run

BEST_CHECKPOINT = "checkpoint_best.pt"
LOG_FILE = "train.log"

_VALID = re.compile(r"epoch (\d+) \| valid on 'valid' subset (.*)")
_FIGURE = re.compile(r"\| (ppl|nll_loss|num_updates) (\S+)")
_SECONDS = re.compile(r"epoch \d+ \|.*\| train_wall .*\| wall (\d+)")


def system_dir(config: Experiment, run: str) -> Path:
    """Where a trained run of a system lies."""
    return config.work_dir / "systems" / run


def best_checkpoint(config: Experiment, run: str) -> Path:
    """The checkpoint of a trained run to start from or translate with."""
    return system_dir(config, run) / BEST_CHECKPOINT


def train_step(
    config: Experiment,
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

    Args:
        inputs: what the result depends on, the data directory first; files that ``arguments`` name are added.
        arguments: fairseq-train's, but for data, checkpoints, logs and processes.
        options: what the result depends on besides; see :class:`~fairseq_ext.engine.steps.Step`. Under ``system`` those
            of the file, under ``extra`` those of the command line.
        extra: more arguments, from this program's own command line.
        foreseen: the part of ``derived`` that decides which options fairseq-train has.
        derived: further arguments, which follow from the inputs and are asked for when these are there; what is given
            in ``arguments`` too is taken from there.
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
    )


class TrainingLog(NamedTuple):
    """What the log of a training says of the validation set, and of the time."""

    perplexities: Mapping[int, float]  # by epoch, from 1
    bits: Mapping[int, float]  # a token, by update; none where fairseq's loss is that of tokens anyway
    seconds: int | None  # None if no epoch has ended


def read_training_log(path: Path) -> TrainingLog:
    """Read the log of a training, which may have been resumed; of a repeated epoch or update the last counts."""
    text = path.read_text(encoding="utf-8", errors="replace")
    perplexities, bits, seconds = dict[int, float](), dict[int, float](), _SECONDS.findall(text)
    for epoch, line in _VALID.findall(text):
        figures = dict(_FIGURE.findall(line))
        if "ppl" in figures:
            perplexities[int(epoch)] = float(figures["ppl"])
        if {"nll_loss", "num_updates"} <= figures.keys():
            bits[int(figures["num_updates"])] = float(figures["nll_loss"])
    return TrainingLog(perplexities, dict(sorted(bits.items())), int(seconds[-1]) if seconds else None)
