"""Exporting a trained system of an experiment as a directory that translates without it."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.data.teacher_labels import TEACHER_FILE, read_teacher_record
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.engine.quiet import quieten_fairseq
from fairseq_ext.engine.records import read_record
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.results import FILES
from fairseq_ext.experiments.translation.systems import TranslationSystem
from fairseq_ext.inputs.errors import InputError, run_command
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.train import best_checkpoint
from fairseq_ext.report.records import read_result
from fairseq_ext.teacher.classifier import MODEL_FOLDER
from fairseq_ext.translators.exported import SEARCH_OPTIONS, Manifest, Parts, verify, writing


def trained_run(config: TranslationExperiment, name: str | None) -> Run:
    """The trained run of this name; without a name the last that the file has.

    Raises:
        InputError: if there is none, if it is not trained, or if the system has several.
    """
    if name is None:
        runs = [run for system in config.systems for run in config.runs(system)]
        trained = [run for run in runs if best_checkpoint(config, run.name).is_file()]
        if not trained:
            raise InputError(f"{config.path}: no system is trained yet; run scripts/train.sh {config.path} SYSTEM")
        return trained[-1]
    runs = config.runs(name)
    if len(runs) > 1:
        raise InputError(f"{config.path}: {name} has several runs; give one of {', '.join(run.name for run in runs)}")
    if not best_checkpoint(config, runs[0].name).is_file():
        raise InputError(
            f"{config.path}: {runs[0].name} is not trained yet; run scripts/train.sh {config.path} {runs[0].name}"
        )
    return runs[0]


def export_step(config: TranslationExperiment, run: Run) -> Step:
    """The step that exports a run below the experiment's own folder, to translate a user's text with it."""
    manifest, parts = _describe(config, run), _parts(config, run)
    inputs = [parts.checkpoint, parts.data / DOMAINS_FILE, *([parts.classifier] if parts.classifier else [])]
    return Step(
        config.work_dir / "exported" / run.name,
        inputs=inputs,
        options={"version": 1, **dataclasses.asdict(manifest)},
        build=lambda folder: parts.write(folder, manifest),
    )


def export_run(config: TranslationExperiment, run: Run, directory: Path) -> None:
    """Export a run, with the scores of its outputs where they are known.

    Raises:
        InputError: if a file is missing or unfit, or the directory holds something else.
    """
    manifest = dataclasses.replace(_describe(config, run), scores=_scores(config, run))
    parts = _parts(config, run)
    with writing(directory) as folder:
        parts.write(folder, manifest)


def _parts(config: TranslationExperiment, run: Run) -> Parts:
    classifier = config.work_dir / "teacher" / MODEL_FOLDER
    return Parts(
        best_checkpoint(config, run.name),
        run.system.data or config.work_dir / "data-bin",
        classifier if _routes_by_domain(config, run) and classifier.is_dir() else None,
    )


def _describe(config: TranslationExperiment, run: Run) -> Manifest:
    parts = _parts(config, run)
    domains = read_domain_names(parts.data / DOMAINS_FILE)
    record = read_record(parts.data)
    return Manifest(
        name=run.name,
        languages=(config.source_lang, config.target_lang),
        domains=tuple(domains),
        architecture=str(option_of(run.system.options, "arch")),
        text=config.clean.normalise,
        generation=_search_options(config, run),
        classifier=_classifier_kind(config, domains) if parts.classifier else None,
        data_fingerprint=record.fingerprint if record else None,
    )


def _routes_by_domain(config: TranslationExperiment, run: Run) -> bool:
    system = config.systems[run.system.name]
    assert isinstance(system, TranslationSystem)
    return system.needs_domain or "adapter" in str(option_of(system.options, "arch"))


def _search_options(config: TranslationExperiment, run: Run) -> dict[str, Any]:
    """What the first output of a system says of the search."""
    for output in config.outputs.values():
        if output.system.name == run.system.name:
            given = {name: option_of(output.options, name.replace("_", "-")) for name in SEARCH_OPTIONS}
            return {name: SEARCH_OPTIONS[name](value) for name, value in given.items() if value is not None}
    return {}


def _classifier_kind(config: TranslationExperiment, domains: Sequence[str]) -> str:
    teacher = config.work_dir / "teacher"
    record = read_teacher_record(teacher)
    if record["domains"] != list(domains):
        raise InputError(f"{teacher / TEACHER_FILE}: its domains are not those of the data; train the teacher again")
    kind: str = record["backend"]
    return kind


def _scores(config: TranslationExperiment, run: Run) -> dict[str, Any] | None:
    """Means by output, metric and column."""
    record = read_result(config.work_dir / FILES["scores"])
    if record is None:
        return None
    return {
        name: {
            metric: {column: figures["mean"] for column, figures in record["outputs"][name][metric].items()}
            for metric in record["signatures"]
        }
        for name, output in config.outputs.items()
        if output.system.name == run.system.name and name in record["outputs"]
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/export.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/export.sh",
        usage="%(prog)s CONFIG SYSTEM DIRECTORY, or %(prog)s --verify DIRECTORY",
        description="Export a trained system as a directory that holds all it needs to translate: model, dictionaries, "
        "subwords, domains, classifier, options, checksums. See docs/using.md.",
    )
    parser.add_argument("config", type=Path, nargs="?", metavar="CONFIG", help="experiment file (YAML), see configs/")
    parser.add_argument(
        "system", nargs="?", metavar="SYSTEM", help="name under train: systems, or one run of it, as gad@2"
    )
    parser.add_argument("directory", type=Path, nargs="?", metavar="DIRECTORY", help="where to write; made anew")
    parser.add_argument(
        "--verify", type=Path, metavar="DIRECTORY", help="read all files of an exported system again (default: export)"
    )
    options = parser.parse_args(arguments)
    quieten_fairseq()
    if options.verify is None:
        if options.directory is None:
            parser.error("give CONFIG, SYSTEM and DIRECTORY")
        config = load_config(options.config)
        export_run(config, trained_run(config, options.system), options.directory)
    elif options.config is not None:
        parser.error("--verify: takes a directory alone")
    directory = options.verify or options.directory
    manifest = verify(directory)
    size = sum(record.bytes for record in manifest.files.values())
    print(
        f"{directory}: {manifest.name}, {'-'.join(manifest.languages)}, {len(manifest.domains)} domains, "
        f"{len(manifest.files)} files of {size / 1e6:.1f} MB, all as exported"
    )


if __name__ == "__main__":
    run_command(main)
