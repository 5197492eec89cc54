"""Training a system of an experiment: ``fairseq-train`` as a step that can be stopped and resumed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import ExperimentConfig, load_config, named_entries
from fairseq_ext.pipeline.fairseq_cli import as_arguments, run_fairseq
from fairseq_ext.pipeline.steps import Step, run_steps

BEST_CHECKPOINT = "checkpoint_best.pt"
LOG_FILE = "train.log"


@dataclass(frozen=True)
class System:
    """One system to train.

    Attributes:
        name: its name, and its directory's.
        start: the system whose best checkpoint it starts from, if any (``from`` in the file).
        uses_teacher: whether it is given the classifier's labels.
        options: fairseq-train's.
    """

    name: str
    start: str | None = None
    uses_teacher: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def systems_of(config: ExperimentConfig) -> dict[str, System]:
    """The systems under ``train: systems``, each with the options of ``train: common`` first.

    Raises:
        InputError: naming a key or system that is not there.
    """
    where = f"{config.path}: train"
    entries = named_entries(config.train, "systems", where)
    systems = {}
    for name, options in entries.items():
        start, uses_teacher = options.pop("from", None), bool(options.pop("uses_teacher", False))
        if start is not None and start not in entries:
            raise InputError(f"{where}: systems: {name}: from: no system {start!r}; there are {', '.join(entries)}")
        systems[name] = System(name, start, uses_teacher, options)
    return systems


def system_of(config: ExperimentConfig, name: str) -> System:
    """One system by its name.

    Raises:
        InputError: if there is none of this name.
    """
    systems = systems_of(config)
    if name not in systems:
        raise InputError(f"{config.path}: train: systems: no {name!r}; there are {', '.join(systems) or 'none'}")
    return systems[name]


def system_dir(config: ExperimentConfig, name: str) -> Path:
    """Where a trained system lies."""
    return config.work_dir / "systems" / name


def best_checkpoint(config: ExperimentConfig, name: str) -> Path:
    """The checkpoint of a trained system to start from or translate with."""
    return system_dir(config, name) / BEST_CHECKPOINT


def training_steps(config: ExperimentConfig, name: str, extra: Sequence[str] = ()) -> list[Step]:
    """The steps that end with the trained system: first those it starts from.

    Args:
        config: the experiment.
        name: the system.
        extra: more options for fairseq-train, such as ``--fp16``; they apply to this system alone.
    """
    system = system_of(config, name)
    steps = training_steps(config, system.start) if system.start else []
    inputs = [config.work_dir / "data-bin"]
    arguments = ["--task", "multi_domain_translation", "--seed", str(config.seed), "--no-epoch-checkpoints"]
    if system.uses_teacher:
        inputs.append(config.work_dir / "teacher")
        arguments += ["--teacher-dir", str(inputs[-1])]
    if system.start:
        inputs.append(best_checkpoint(config, system.start))
        arguments += ["--finetune-from-model", str(inputs[-1])]
    arguments += [*as_arguments(system.options), *extra]

    def build(folder: Path) -> None:
        # How progress is shown changes nothing in the result.
        display = ["--log-format", "tqdm" if sys.stderr.isatty() else "simple", "--log-interval", "100"]
        files = ["--save-dir", str(folder), "--log-file", str(folder / LOG_FILE)]
        run_fairseq("train", [str(inputs[0]), *arguments, *files, *display])

    options = {"system": system.options, "extra": list(extra), "seed": config.seed}
    step = Step(system_dir(config, name), inputs=inputs, options=options, build=build, resumable=True)
    return [*steps, step]


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/train.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/train.sh",
        description="Train a system of an experiment, and first the one it starts from. Finished systems are "
        "not trained again; an interrupted training goes on. Further options go to fairseq-train, such as "
        "--fp16, --bf16 or --update-freq 2; all GPUs of the machine are used.",
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    parser.add_argument("system", help="name under train: systems")
    parser.add_argument("--dry-run", action="store_true", help="only print which systems would be trained")
    options, extra = parser.parse_known_args(arguments)
    run_steps(training_steps(load_config(options.config), options.system, extra), dry_run=options.dry_run)


if __name__ == "__main__":
    main()
