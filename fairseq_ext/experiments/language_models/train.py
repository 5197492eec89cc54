"""Training the language models of an experiment, as steps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fairseq_ext.engine.fairseq_cli import as_arguments
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.language_models.config import LanguageModelExperiment
from fairseq_ext.experiments.language_models.prepare import DATA_DIR
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.language_model_options import LANGUAGE_MODELING_TASK
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.train import best_checkpoint, train_step
from fairseq_ext.recipes.tune import steps_of_runs

_NONE: Mapping[str, Any] = MappingProxyType({})
_NODES_VERSION = 2  # 1: Adam counted the steps of all nodes for each


def checkpoint_of(experiment: LanguageModelExperiment, run: Run) -> Path:
    """The checkpoint of a run: what was trained, or what the file names."""
    return experiment.systems[run.system.name].checkpoint or best_checkpoint(experiment, run.name)


def training_steps(
    experiment: LanguageModelExperiment,
    name: str,
    options: Mapping[str, Any] = _NONE,
    files: Mapping[str, Path] = _NONE,
) -> list[Step]:
    """The steps that train a system, its trials among them; none for a model that is there already.

    Args:
        experiment: that the system is of.
        name: the system's.
        options: of fairseq-train, beside the system's own.
        files: further options, which name files that other steps make.

    Raises:
        InputError: if a model that should be there already is not.
    """
    checkpoint = experiment.systems[name].checkpoint
    if checkpoint is None:
        train = partial(_training_step, experiment, options=options, files=files)
        return steps_of_runs(experiment, experiment.runs[name], train)
    if not checkpoint.is_file():
        raise InputError(
            f"{experiment.path}: train: systems: {name}: checkpoint: no file {checkpoint}; a GPT-2 is imported by "
            "scripts/import_gpt2.py"
        )
    return []


def _training_step(
    experiment: LanguageModelExperiment, run: Run, options: Mapping[str, Any], files: Mapping[str, Path]
) -> Step:
    start, options = experiment.start_of(run), {**run.system.options, **options}
    if start is not None:
        files = {"finetune-from-model": checkpoint_of(experiment, start), **files}
    arguments = ["--task", LANGUAGE_MODELING_TASK, "--seed", str(run.seed), "--no-epoch-checkpoints"]
    return train_step(
        experiment,
        run,
        [run.system.data or experiment.work_dir / DATA_DIR, *files.values()],
        [*arguments, *as_arguments(files), *as_arguments(options)],
        {"system": options, "extra": [], "seed": run.seed, **({"nodes": _NODES_VERSION} if "tree" in files else {})},
    )
