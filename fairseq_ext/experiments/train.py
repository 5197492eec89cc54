"""Train a system of an experiment: ``fairseq-train`` as a resumable step."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_ext.base.fairseq_cli import run_fairseq, run_training
from fairseq_ext.base.fairseq_options import FairseqCommand, check_training_options, named_files
from fairseq_ext.base.processes import distributed_arguments
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import Experiment, Run

BEST_CHECKPOINT = "checkpoint_best.pt"
LOG_FILE = "train.log"

_VALID = re.compile(r"epoch (\d+) \| valid on 'valid' subset (.*)")
_FIGURE = re.compile(r"\| (ppl|nll_loss|num_updates) (\S+)")
_SECONDS = re.compile(r"epoch \d+ \|.*\| train_wall .*\| wall (\d+)")


def system_dir(config: Experiment, run: str) -> Path:
    """Return the directory of a training run."""
    return config.work_dir / "systems" / run


def best_checkpoint(config: Experiment, run: str) -> Path:
    """Return the best checkpoint of a training run."""
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
    """Return a step that runs ``fairseq-train``. It is resumable, and further processes can join it.

    Args:
        inputs: files and directories that the result depends on, with the data directory first. Files named in
            ``arguments`` are added.
        arguments: arguments of fairseq-train, except data, checkpoints, logs and processes.
        options: further values that the result depends on; see :class:`~fairseq_ext.base.steps.Step`. ``system`` has
            the options of the experiment file and ``extra`` those of the command line.
        extra: further arguments from the command line of this program.
        foreseen: part of ``derived`` that decides which options fairseq-train has.
        derived: returns further arguments that depend on the inputs; called once these exist. ``arguments`` override
            them.
    """
    typed = [*arguments, *extra]
    check_training_options(typed, run.name)
    inputs = [*inputs, *named_files(typed, run.name, inputs)]

    def command() -> list[str]:
        return [str(inputs[0]), *derived(), *typed, *distributed_arguments(typed)]

    def build(folder: Path) -> None:
        run_training(run.name, [*command(), "--save-dir", str(folder)], folder / LOG_FILE)
        for leftover in folder.glob("*.tmp"):  # from a run that was killed while saving
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
    """Validation results and time from a training log."""

    perplexities: Mapping[int, float]  # by epoch, from 1
    bits: Mapping[int, float]  # bits per token, by update; empty if fairseq's loss is already per token
    seconds: int | None  # None if no epoch has ended


def read_training_log(path: Path) -> TrainingLog:
    """Read a training log. If an epoch or update was repeated after an interruption, the last one counts."""
    text = path.read_text(encoding="utf-8", errors="replace")
    perplexities, bits, seconds = dict[int, float](), dict[int, float](), _SECONDS.findall(text)
    for epoch, line in _VALID.findall(text):
        figures = dict(_FIGURE.findall(line))
        if "ppl" in figures:
            perplexities[int(epoch)] = float(figures["ppl"])
        if {"nll_loss", "num_updates"} <= figures.keys():
            bits[int(figures["num_updates"])] = float(figures["nll_loss"])
    return TrainingLog(perplexities, dict(sorted(bits.items())), int(seconds[-1]) if seconds else None)
