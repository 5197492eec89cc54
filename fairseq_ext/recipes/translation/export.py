"""Exporting a trained system as a directory that translates without the experiment."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.classifiers.classifier import MODEL_FOLDER
from fairseq_ext.data.teacher_labels import read_teacher_record
from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.engine.provenance import read_record
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.records import RECORDS_FILE, read_records
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.train import best_checkpoint
from fairseq_ext.recipes.translation.config import Translation
from fairseq_ext.recipes.translation.sections import OutputRun
from fairseq_ext.runtime.manifest import FORMAT, SEARCH_OPTIONS, Manifest
from fairseq_ext.translators.exported import Parts, writing


def trained_outputs(config: Translation, runs: Sequence[OutputRun]) -> list[OutputRun]:
    """Those output runs whose systems are trained; the others are named on stderr."""
    found = [run for run in runs if best_checkpoint(config, run.run.name).is_file()]
    for run in runs:
        if run not in found:
            command = f"fairseq-ext train {config.path} {run.run.name}"
            print(f"{run.name}: skipped, its system is not trained; run {command}", file=sys.stderr)
    if runs and not found:
        raise InputError(f"{config.path}: nothing to translate with; run the command above first")
    return found


def trained_run(config: Translation, name: str | None) -> Run:
    """The trained run of this name; without a name the last that the file has."""
    if name is None:
        runs = [run for system in config.systems for run in config.runs_of(system)]
        trained = [run for run in runs if best_checkpoint(config, run.name).is_file()]
        if not trained:
            raise InputError(f"{config.path}: no system is trained yet; run fairseq-ext train {config.path} SYSTEM")
        return trained[-1]
    runs = config.runs_of(name)
    if len(runs) > 1:
        raise InputError(f"{config.path}: {name} has several runs; give one of {', '.join(run.name for run in runs)}")
    name = runs[0].name
    if not best_checkpoint(config, name).is_file():
        raise InputError(f"{config.path}: {name} is not trained yet; run fairseq-ext train {config.path} {name}")
    return runs[0]


def export_step(config: Translation, run: Run) -> Step:
    """The step that exports a run below the experiment's own folder, to translate a user's text with it."""
    manifest, parts = _describe(config, run), _parts(config, run)
    inputs = [parts.checkpoint, parts.data / DOMAINS_FILE, *([parts.classifier] if parts.classifier else [])]
    return Step(
        config.work_dir / "exported" / run.name,
        inputs=inputs,
        options={"version": FORMAT, **manifest.content},
        build=lambda folder: parts.write(folder, manifest),
    )


def export_run(config: Translation, run: Run, directory: Path) -> None:
    """Export a run, with the scores of its outputs where they are known."""
    manifest = dataclasses.replace(_describe(config, run), scores=_scores(config, run))
    parts = _parts(config, run)
    with writing(directory) as folder:
        parts.write(folder, manifest)


def _parts(config: Translation, run: Run) -> Parts:
    classifier, system = config.work_dir / "teacher" / MODEL_FOLDER, config.systems[run.system.name]
    is_routed = system.requires_domain or "adapter" in system.arch
    return Parts(
        best_checkpoint(config, run.name),
        run.system.data or config.work_dir / "data-bin",
        classifier if is_routed and classifier.is_dir() else None,
    )


def _describe(config: Translation, run: Run) -> Manifest:
    parts = _parts(config, run)
    record = read_record(parts.data)
    return Manifest(
        name=run.name,
        languages=(config.source_lang, config.target_lang),
        domains=tuple(read_domain_names(parts.data / DOMAINS_FILE)),
        architecture=config.systems[run.system.name].arch,
        text=config.cleaning.normalise,
        generation=_search_options(config, run),
        classifier=read_teacher_record(config.work_dir / "teacher")["backend"] if parts.classifier else None,
        data_fingerprint=record.fingerprint if record else None,
    )


def _search_options(config: Translation, run: Run) -> dict[str, Any]:
    """What the first output of a system says of the search."""
    for output in config.outputs.values():
        if output.system.name == run.system.name:
            given = {name: option_of(output.options, name.replace("_", "-")) for name in SEARCH_OPTIONS}
            return {name: SEARCH_OPTIONS[name][0](value) for name, value in given.items() if value is not None}
    return {}


def _scores(config: Translation, run: Run) -> dict[str, Any] | None:
    """Means by output, metric and set; None before they are measured."""
    path = config.work_dir / "scores" / RECORDS_FILE
    if not path.is_file():
        return None
    records = read_records(path)
    outputs = [name for name, output in config.outputs.items() if output.system.name == run.system.name]
    found: dict[str, Any] = {}
    for name, metric, domain in dict.fromkeys((each.system, each.metric, each.domain) for each in records):
        if name in outputs and (mean := records.value(name, metric, domain)) is not None:
            found.setdefault(name, {}).setdefault(metric, {})[domain] = round(mean, 2)
    return found
