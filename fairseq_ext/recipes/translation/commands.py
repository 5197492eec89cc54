"""The commands of ``scripts/`` and ``data-prep/`` for translation experiments: ``python -m … NAME ARGUMENTS``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.raw_text import canonical
from fairseq_ext.corpora.text_files import stdin_lines
from fairseq_ext.data.teacher_labels import TEACHER_FILE, read_teacher_record
from fairseq_ext.domains.names import DOMAINS_FILE, count_domain_tags, read_domain_names
from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.engine.provenance import read_record
from fairseq_ext.engine.quiet import quieten_fairseq
from fairseq_ext.engine.stages import add_jobs_option
from fairseq_ext.engine.steps import Step, add_step_options, run_steps
from fairseq_ext.engine.tasks import add_engine_options, engine_from
from fairseq_ext.filtering.normalise import normalise_lines
from fairseq_ext.inputs.errors import InputError, run_command
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.train import best_checkpoint
from fairseq_ext.recipes.translation.config import OutputRun, Translation, load_config
from fairseq_ext.recipes.translation.stages import (
    EXAMPLES_FILE,
    examples_step,
    teacher_steps,
    training_steps,
    translation_step,
)
from fairseq_ext.report.measurements import RECORDS_FILE, read_records
from fairseq_ext.report.render import PAGE_FILE
from fairseq_ext.teacher.classifier import MODEL_FOLDER
from fairseq_ext.translators.command_line import text_parser, translate_text
from fairseq_ext.translators.exported import SEARCH_OPTIONS, Manifest, Parts, verify, writing

_CONFIG_HELP = "experiment file (YAML), see configs/"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the first argument names.

    Raises:
        InputError: naming what cannot be used.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] not in COMMANDS:
        raise InputError(f"no command {' '.join(given[:1])!r}; there are {', '.join(COMMANDS)}")
    COMMANDS[given[0]](given[1:])


def train_teacher(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``data-prep/train_teacher.py``."""
    parser = argparse.ArgumentParser(
        description="Train an experiment's domain classifier and label its data with it. "
        "Finished steps are not run again.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("config", type=Path, help=_CONFIG_HELP)
    add_step_options(parser)
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    steps = teacher_steps(load_config(options.config), engine_from(options))
    run_steps(steps, dry_run=options.dry_run)


def train(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/train.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/train.sh",
        description="Train a system of an experiment, and first the one it starts from. Finished systems are "
        "not trained again; an interrupted training is resumed. "
        "Further options go to fairseq-train, such as --fp16, --bf16 or --update-freq 2; they count for this run only. "
        "All GPUs of the machine are used, and under torchrun or srun those of all machines.",
    )
    parser.add_argument("config", type=Path, help=_CONFIG_HELP)
    parser.add_argument("system", help="name under train: systems, or one run of it, as gad@2 or ft@LAW")
    add_step_options(parser)
    add_jobs_option(parser)
    options, extra = parser.parse_known_args(arguments)
    run_steps(
        training_steps(load_config(options.config), options.system, extra),
        dry_run=options.dry_run,
        jobs=options.jobs,
        scheduler=options.scheduler,
    )


def translate(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/translate.sh``: of a user's text, or of an experiment's test sets."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    text = text_parser("scripts/translate.sh")
    if _names_text(given):
        translate_text(text.parse_args(given), _export)
        return
    parser = argparse.ArgumentParser(
        prog="scripts/translate.sh",
        description="Translate the test sets of all domains. Finished translations are not made again. Further "
        "options go to fairseq-generate, such as --fp16; they count for this run only.",
        epilog=f"With --input, --output or an exported system, a text of your own:\n\n{text.format_help()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, help=_CONFIG_HELP)
    parser.add_argument(
        "output",
        nargs="?",
        help="name under translate: outputs, or one run of it, as gad@2 or ft@LAW (default: all that are trained)",
    )
    add_step_options(parser)
    options, extra = parser.parse_known_args(given)
    config = load_config(options.config)
    runs = config.output_runs(options.output) if options.output else config.all_output_runs()
    steps = [translation_step(config, run, extra) for run in _trained(config, runs)]
    run_steps(steps, dry_run=options.dry_run)


def _names_text(arguments: Sequence[str]) -> bool:
    """Whether a command line is about a user's text."""
    if any(argument.partition("=")[0] in ("--input", "--output") for argument in arguments):
        return True
    first = next((argument for argument in arguments if not argument.startswith("-")), None)
    return first is not None and Path(first).is_dir()


def _export(path: Path, system: str | None) -> Path:
    """A system of an experiment, exported below the experiment's own folder."""
    config = load_config(path)
    step = export_step(config, trained_run(config, system))
    run_steps([step])
    return step.output


def _trained(config: Translation, runs: Sequence[OutputRun]) -> list[OutputRun]:
    """Those output runs whose systems are trained; the others are named on stderr.

    Raises:
        InputError: if there are only others.
    """
    found = [run for run in runs if best_checkpoint(config, run.run.name).is_file()]
    for run in runs:
        if run not in found:
            command = f"scripts/train.sh {config.path} {run.run.name}"
            print(f"{run.name}: skipped, its system is not trained; run {command}", file=sys.stderr)
    if runs and not found:
        raise InputError(f"{config.path}: nothing to translate with; run the command above first")
    return found


def score(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/score.sh``."""
    from fairseq_ext.recipes.translation.measurement import SIGNATURES_FILE, scoring_step
    from fairseq_ext.recipes.translation.report import quality_and_advice

    parser = argparse.ArgumentParser(
        prog="scripts/score.sh",
        description="Score the translations of an experiment that have been made (sacrebleu: chrF and BLEU, or what "
        "evaluate: metrics names; COMET if evaluate: comet names a local model) and print the table.",
    )
    parser.add_argument("config", type=Path, help=_CONFIG_HELP)
    add_step_options(parser)
    options = parser.parse_args(arguments)
    config = load_config(options.config)
    step = scoring_step(config)
    run_steps([step], dry_run=options.dry_run)
    if options.dry_run:
        return
    for block in quality_and_advice(config):
        print(f"{block}\n")
    signatures = json.loads((step.output / SIGNATURES_FILE).read_text(encoding="utf-8"))
    for metric, signature in signatures.items():
        print(f"{metric}: {signature}", file=sys.stderr)


def analyse(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/analyse.sh``."""
    from fairseq_ext.recipes.translation.measurement import ANALYSES

    parser = argparse.ArgumentParser(
        prog="scripts/analyse.sh",
        description="Analyse a trained and translated experiment: distances between its domains, "
        "gates, parameters, speed. Each writes analysis/NAME/records.jsonl. Finished analyses are not made again.",
    )
    parser.add_argument("config", type=Path, help=_CONFIG_HELP)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ANALYSES)} (default: all)")
    add_step_options(parser)
    options = parser.parse_args(arguments)
    run_steps(chosen_analyses(load_config(options.config), options.names), dry_run=options.dry_run)


def chosen_analyses(config: Translation, names: Sequence[str]) -> list[Step]:
    """The analyses of these names, or all of the experiment's.

    Raises:
        InputError: if there is no such analysis, or the experiment gives it nothing to do.
    """
    from fairseq_ext.recipes.translation.measurement import ANALYSES, analysis_steps

    steps = analysis_steps(config)
    for name in names:
        if name not in ANALYSES:
            raise InputError(f"no analysis {name!r}; there are {', '.join(ANALYSES)}")
        if name not in steps:
            reason = {
                "distances": "there is one domain",
                "gates": "no output under translate: outputs has gates: true",
                "parameters": "train: systems is empty",
                "speed": "evaluate: speed names no output",
            }[name]
            raise InputError(f"{config.path}: {name}: nothing to analyse, {reason}")
    return [steps[name] for name in names or steps]


def report(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/report.sh``."""
    from fairseq_ext.recipes.translation.report import report as report_step

    parser = argparse.ArgumentParser(
        prog="scripts/report.sh",
        description="Write the report of an experiment: what has been measured, as a page, Markdown and pictures.",
    )
    parser.add_argument("config", type=Path, help=_CONFIG_HELP)
    add_step_options(parser)
    options = parser.parse_args(arguments)
    step = report_step(load_config(options.config))
    run_steps([step], dry_run=options.dry_run)
    if not options.dry_run:
        print(step.output / PAGE_FILE)


def examples(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/examples.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/examples.sh",
        description="Translate the lines under translate: examples through fairseq-interactive and print them.",
    )
    parser.add_argument("config", type=Path, help=_CONFIG_HELP)
    add_step_options(parser)
    options = parser.parse_args(arguments)
    step = examples_step(load_config(options.config))
    run_steps([step], dry_run=options.dry_run)
    if not options.dry_run:
        print((step.output / EXAMPLES_FILE).read_text(encoding="utf-8"), end="")


def normalise(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``data-prep/normalise.py``."""
    parser = argparse.ArgumentParser(
        description="Normalise lines from standard input as clean.normalise of the experiment file says."
    )
    parser.add_argument("config", type=Path, help=_CONFIG_HELP)
    parser.add_argument("--lang", help="language of the text (default: the experiment's source_lang)")
    options = parser.parse_args(arguments)
    config = load_config(options.config)
    for number, given in enumerate(stdin_lines(), start=1):
        line = canonical(given, Counter())
        if config.cleaning.normalise:
            [line] = normalise_lines([line], options.lang or config.source_lang, config.cleaning.normalise)
        if count_domain_tags(line) > count_domain_tags(given):
            raise InputError(
                f"standard input, line {number}: holds a domain's tag in odd characters; write it plainly, as in "
                "<domain:NAME>, or remove it"
            )
        # Flushed by line, so that an interactive translation behind it answers at once.
        print(line, flush=True)


def export(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/export.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/export.sh",
        usage="%(prog)s CONFIG SYSTEM DIRECTORY, or %(prog)s --verify DIRECTORY",
        description="Export a trained system as a directory that holds all it needs to translate: model, dictionaries, "
        "subwords, domains, classifier, options, checksums. See docs/using.md.",
    )
    parser.add_argument("config", type=Path, nargs="?", metavar="CONFIG", help=_CONFIG_HELP)
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


# Exporting a trained system as a directory that translates without the experiment


def trained_run(config: Translation, name: str | None) -> Run:
    """The trained run of this name; without a name the last that the file has.

    Raises:
        InputError: if there is none, if it is not trained, or if the system has several.
    """
    if name is None:
        runs = [run for system in config.systems for run in config.runs_of(system)]
        trained = [run for run in runs if best_checkpoint(config, run.name).is_file()]
        if not trained:
            raise InputError(f"{config.path}: no system is trained yet; run scripts/train.sh {config.path} SYSTEM")
        return trained[-1]
    runs = config.runs_of(name)
    if len(runs) > 1:
        raise InputError(f"{config.path}: {name} has several runs; give one of {', '.join(run.name for run in runs)}")
    if not best_checkpoint(config, runs[0].name).is_file():
        raise InputError(
            f"{config.path}: {runs[0].name} is not trained yet; run scripts/train.sh {config.path} {runs[0].name}"
        )
    return runs[0]


def export_step(config: Translation, run: Run) -> Step:
    """The step that exports a run below the experiment's own folder, to translate a user's text with it."""
    manifest, parts = _describe(config, run), _parts(config, run)
    inputs = [parts.checkpoint, parts.data / DOMAINS_FILE, *([parts.classifier] if parts.classifier else [])]
    return Step(
        config.work_dir / "exported" / run.name,
        inputs=inputs,
        options={"version": 1, **dataclasses.asdict(manifest)},
        build=lambda folder: parts.write(folder, manifest),
    )


def export_run(config: Translation, run: Run, directory: Path) -> None:
    """Export a run, with the scores of its outputs where they are known.

    Raises:
        InputError: if a file is missing or unfit, or the directory holds something else.
    """
    manifest = dataclasses.replace(_describe(config, run), scores=_scores(config, run))
    parts = _parts(config, run)
    with writing(directory) as folder:
        parts.write(folder, manifest)


def _parts(config: Translation, run: Run) -> Parts:
    classifier = config.work_dir / "teacher" / MODEL_FOLDER
    return Parts(
        best_checkpoint(config, run.name),
        run.system.data or config.work_dir / "data-bin",
        classifier if _routes_by_domain(config, run) and classifier.is_dir() else None,
    )


def _describe(config: Translation, run: Run) -> Manifest:
    parts = _parts(config, run)
    domains = read_domain_names(parts.data / DOMAINS_FILE)
    record = read_record(parts.data)
    return Manifest(
        name=run.name,
        languages=(config.source_lang, config.target_lang),
        domains=tuple(domains),
        architecture=str(option_of(run.system.options, "arch")),
        text=config.cleaning.normalise,
        generation=_search_options(config, run),
        classifier=_classifier_kind(config, domains) if parts.classifier else None,
        data_fingerprint=record.fingerprint if record else None,
    )


def _routes_by_domain(config: Translation, run: Run) -> bool:
    system = config.systems[run.system.name]
    return system.requires_domain or "adapter" in str(option_of(system.options, "arch"))


def _search_options(config: Translation, run: Run) -> dict[str, Any]:
    """What the first output of a system says of the search."""
    for output in config.outputs.values():
        if output.system.name == run.system.name:
            given = {name: option_of(output.options, name.replace("_", "-")) for name in SEARCH_OPTIONS}
            return {name: SEARCH_OPTIONS[name](value) for name, value in given.items() if value is not None}
    return {}


def _classifier_kind(config: Translation, domains: Sequence[str]) -> str:
    teacher = config.work_dir / "teacher"
    record = read_teacher_record(teacher)
    if record["domains"] != list(domains):
        raise InputError(f"{teacher / TEACHER_FILE}: its domains are not those of the data; train the teacher again")
    kind: str = record["backend"]
    return kind


def _scores(config: Translation, run: Run) -> dict[str, Any] | None:
    """Means by output, metric and set; None before they are measured."""
    path = config.work_dir / "scores" / RECORDS_FILE
    if not path.is_file():
        return None
    records = read_records(path)
    found: dict[str, Any] = {}
    for record in records:
        if record.system in config.outputs and config.outputs[record.system].system.name == run.system.name:
            mean = records.mean(record.system, record.metric, record.domain)
            assert mean is not None
            found.setdefault(record.system, {}).setdefault(record.metric, {})[record.domain] = round(mean.value, 2)
    return found


def _init(arguments: Sequence[str] | None = None) -> None:
    from fairseq_ext.recipes.translation.init import main as init

    init(arguments)


COMMANDS: Mapping[str, Callable[[Sequence[str] | None], None]] = {
    "init": _init,
    "train_teacher": train_teacher,
    "train": train,
    "translate": translate,
    "score": score,
    "analyse": analyse,
    "report": report,
    "examples": examples,
    "normalise": normalise,
    "export": export,
}


if __name__ == "__main__":
    run_command(main)
