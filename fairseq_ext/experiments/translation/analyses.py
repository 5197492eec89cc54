"""Analyses of an experiment: distances between domains, gates, parameters and speed. Shares are in percent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext import install
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.metrics.records import Record
from fairseq_ext.experiments.report import measure_step
from fairseq_ext.experiments.train import best_checkpoint
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.gates import gates_step
from fairseq_ext.experiments.translation.speed import speed_step

DISTANCE, PARAMETERS, TRAINED = "distance", "parameters", "trained parameters"  # metrics
ANALYSES = ("distances", "gates", "parameters", "speed")
_DISTANCES_VERSION, _PARAMETERS_VERSION = 3, 2


def analysis_steps(config: Translation) -> list[Step]:
    """Return the steps of the analyses in :data:`ANALYSES` that apply to the experiment."""
    return [
        *([distances_step(config)] if len(config.domains) > 1 else []),
        *([gates_step(config)] if config.gated_runs else []),
        *([parameters_step(config)] if config.systems else []),
        *([speed_step(config)] if config.evaluate.speed else []),
    ]


def distances_step(config: Translation) -> Step:
    """Return the step that measures distances between domains: D×D."""
    splits, sentences = config.work_dir / "splits", config.evaluate.distance_sentences
    options: dict[str, Any] = {"lang": config.source_lang, "seed": config.seed, "sentences": sentences}

    def measure() -> Iterator[Record]:
        # Imported here because scikit-learn takes a second to load.
        from fairseq_ext.experiments.translation.distances import measure_distances

        domains, size, matrix = measure_distances(splits, **options)
        for domain, row in zip(domains, matrix.tolist(), strict=True):
            for other, value in zip(domains, row, strict=True):
                yield Record(domain=domain, metric=DISTANCE, value=value, n=size, dims={"to": other})

    recorded = {"version": _DISTANCES_VERSION, **options}
    return measure_step(config.work_dir / "analysis/distances", [splits], recorded, measure)


def parameters_step(config: Translation) -> Step:
    """Return the step that counts the parameters of all runs."""
    runs = config.all_runs
    checkpoints = {run.name: best_checkpoint(config, run.name) for run in runs}

    def measure() -> Iterator[Record]:
        for run in runs:
            total, trained = count_parameters(checkpoints[run.name], run.system.data or config.work_dir / "data-bin")
            of = partial(Record, system=run.system.name, run=run.name, seed=run.seed)
            yield of(metric=PARAMETERS, value=total)
            yield of(metric=TRAINED, value=trained)

    # The data are not an input: only their dictionaries are used, and loading fails if they are incompatible.
    options = {"version": _PARAMETERS_VERSION, "runs": list(checkpoints)}
    return measure_step(config.work_dir / "analysis/parameters", list(checkpoints.values()), options, measure)


def count_parameters(checkpoint: Path, data: Path) -> tuple[int, int]:
    """Count the total and trained parameters of a model. Shared parameters are counted once.

    The model is built from the checkpoint, because the file does not say which entries are shared, frozen or not
    parameters.
    """
    from fairseq import checkpoint_utils

    install()
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    sizes = {parameter: parameter.numel() for parameter in models[0].parameters()}
    return sum(sizes.values()), sum(size for parameter, size in sizes.items() if parameter.requires_grad)
