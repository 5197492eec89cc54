"""Export a trained system as a directory that can translate without the experiment."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import option_of
from fairseq_ext.base.origin import read_origin
from fairseq_ext.base.provenance import read_record
from fairseq_ext.base.steps import Step
from fairseq_ext.classifiers.classifier import MODEL_FOLDER
from fairseq_ext.data.teacher_labels import read_teacher_record
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, read_records
from fairseq_ext.experiments.train import best_checkpoint
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.sections import OutputRun
from fairseq_ext.serve.graphs.exported import Parts, writing
from fairseq_ext.serve.runtime.manifest import FORMAT, SEARCH_OPTIONS, Manifest


def trained_outputs(config: Translation, runs: Sequence[OutputRun]) -> list[OutputRun]:
    """Return the output runs with trained systems. The skipped runs are reported on stderr."""
    trained = [run for run in runs if best_checkpoint(config, run.run.name).is_file()]
    for run in runs:
        if run not in trained:
            command = f"fairseq-ext train {config.path} {run.run.name}"
            print(f"{run.name}: skipped because its system is not trained; run {command}", file=sys.stderr)
    if runs and not trained:
        raise InputError(f"{config.path}: no system is trained yet; run a command above first")
    return trained


def trained_run(config: Translation, name: str | None) -> Run:
    """Return the trained run with this name, or without a name the last trained run in the file."""
    runs = config.all_runs if name is None else config.runs_of(name)
    trained = [run for run in runs if best_checkpoint(config, run.name).is_file()]
    if name is None and not trained:
        raise InputError(f"{config.path}: no system is trained yet; run fairseq-ext train {config.path} SYSTEM")
    if name is not None and len(runs) > 1:
        raise InputError(f"{config.path}: {name} has several runs; choose one of {', '.join(run.name for run in runs)}")
    if not trained:
        raise InputError(f"{config.path}: {name} is not trained yet; run fairseq-ext train {config.path} {name}")
    return trained[-1]


def export_step(config: Translation, run: Run) -> Step:
    """Return the step that exports a run below the experiment's folder, to translate a user's text with it."""
    parts, manifest = _described(config, run)
    inputs = [parts.checkpoint, parts.data / DOMAINS_FILE, *([parts.classifier] if parts.classifier else [])]
    options = {"version": FORMAT, **manifest.content}
    return Step(config.work_dir / "exported" / run.name, inputs, options, lambda folder: parts.write(folder, manifest))


def export_run(config: Translation, run: Run, directory: Path) -> None:
    """Export a run, with the scores of its outputs if they were measured."""
    parts, manifest = _described(config, run)
    with writing(directory) as folder:
        parts.write(folder, dataclasses.replace(manifest, scores=_scores(config, run)))


def _described(config: Translation, run: Run) -> tuple[Parts, Manifest]:
    """Return the source files of an export, and its manifest."""
    system, data, teacher = config.systems[run.system.name], run.system.data, config.work_dir / "teacher"
    data, classifier = data or config.work_dir / "data-bin", teacher / MODEL_FOLDER
    is_routed = (system.requires_domain or "adapter" in system.arch) and classifier.is_dir()
    record = read_record(data)
    manifest = Manifest(
        name=run.name,
        languages=config.langs,
        domains=tuple(read_domain_names(data / DOMAINS_FILE)),
        architecture=system.arch,
        text=config.cleaning.normalise,
        generation=_search_options(config, run),
        classifier=read_teacher_record(teacher)["backend"] if is_routed else None,
        data_fingerprint=record.fingerprint if record else None,
        base=read_origin(data),
    )
    return Parts(best_checkpoint(config, run.name), data, classifier if is_routed else None), manifest


def _search_options(config: Translation, run: Run) -> dict[str, Any]:
    """Return the search options of the first output of a system."""
    for output in config.outputs.values():
        if output.system.name == run.system.name:
            values = {name: option_of(output.options, name.replace("_", "-")) for name in SEARCH_OPTIONS}
            return {name: SEARCH_OPTIONS[name][0](value) for name, value in values.items() if value is not None}
    return {}


def _scores(config: Translation, run: Run) -> dict[str, Any] | None:
    """Return mean scores by output, metric and set, or None if they were not measured."""
    path = config.work_dir / "scores" / RECORDS_FILE
    if not path.is_file():
        return None
    records = read_records(path)
    outputs = [name for name, output in config.outputs.items() if output.system.name == run.system.name]
    scores: dict[str, Any] = {}
    for name, metric, domain in dict.fromkeys(map(attrgetter("system", "metric", "domain"), records)):
        if name in outputs and (mean := records.value(name, metric, domain)) is not None:
            scores.setdefault(name, {}).setdefault(metric, {})[domain] = round(mean, 2)
    return scores
