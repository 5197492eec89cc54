"""Verbs of experiments: from corpora to a report."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_ext.cli.verbs import Verb, add_config, add_dry_run, add_engine, add_jobs, engine_of, number
from fairseq_ext.inputs.errors import InputError

if TYPE_CHECKING:
    from fairseq_ext.engine.steps import Step
    from fairseq_ext.recipes.translation.config import Translation


def _init_options(parser: ArgumentParser) -> None:
    parser.description = (
        "Look at a folder of corpora, such as DOMAIN.en and DOMAIN.pl, DOMAIN.tsv or DOMAIN.tmx, compressed or not, "
        "and write an experiment file of a fitting size, in which every key is explained."
    )
    add = parser.add_argument
    add("folder", type=Path, help="of the corpora: text line by line, or TSV, source first, or TMX")
    add("--source", metavar="LANG", help="language of the text to translate (default: en, if it is there)")
    add("--target", metavar="LANG", help="language to translate into (default: the other one)")
    add("--gpus", type=number(0), metavar="N", help="that will train (default: those of this machine)")
    add(
        "--minutes",
        type=float,
        metavar="N",
        help="that all of it may take; if need be, the base is trained for less than a good one takes (default: as "
        "long as a good base takes)",
    )
    add("--paper", action="store_true", help="gates exactly as in the paper (default: ours, which suit little text)")
    add("--output", type=Path, default=Path("my.yaml"), help="file to write")


def _init(options: Namespace) -> None:
    from fairseq_ext.recipes.translation.init import init

    languages = (options.source, options.target)
    init(options.folder, options.output, *languages, options.gpus, options.minutes, is_paper=options.paper)


def _run_options(parser: ArgumentParser) -> None:
    parser.description = (
        "Run an experiment of any recipe from its corpora to its report. --dry-run lists its stages; every system is "
        "a stage of its name. Finished steps are not run again: stop the command as you like and start it again."
    )
    add_config(parser)
    parser.add_argument("--from", dest="first", metavar="STAGE", help="begin with this stage (default: the first)")
    parser.add_argument("--to", dest="last", metavar="STAGE", help="end with this stage (default: the last)")
    parser.add_argument("--only", nargs="+", default=[], metavar="STAGE", help="run these stages alone")
    add_dry_run(parser)
    add_jobs(parser)


def _run(options: Namespace) -> None:
    from fairseq_ext.engine.stages import run_chosen
    from fairseq_ext.recipes.registry import load_experiment

    recipe, experiment = load_experiment(options.config)
    run_chosen(
        recipe.stages(experiment),
        options.first,
        options.last,
        options.only,
        dry_run=options.dry_run,
        jobs=options.jobs,
        scheduler=options.scheduler,
    )


def _prepare_options(parser: ArgumentParser) -> None:
    parser.description = (
        "Prepare an experiment's data: import, filter, hold out, subwords, numbers for fairseq. Finished steps are "
        "not run again."
    )
    add_config(parser)
    parser.add_argument("--to", metavar="STEP", help="stop after this step, for instance splits (default: the last)")
    add_dry_run(parser)
    add_engine(parser)


def _prepare(options: Namespace) -> None:
    from fairseq_ext.engine.steps import run_steps
    from fairseq_ext.recipes.registry import load_experiment

    recipe, experiment = load_experiment(options.config)
    steps = recipe.prepare(experiment, engine_of(options))
    names = [step.output.name for step in steps]
    if options.to is not None and options.to not in names:
        raise InputError(f"--to: {options.to!r} is no step; choose one of {', '.join(names)}")
    run_steps(steps[: names.index(options.to) + 1] if options.to else steps, dry_run=options.dry_run)


def _teacher_options(parser: ArgumentParser) -> None:
    add_config(parser)
    add_dry_run(parser)
    add_engine(parser)


def _teacher(options: Namespace) -> None:
    from fairseq_ext.engine.steps import run_steps
    from fairseq_ext.recipes.translation.config import load_config
    from fairseq_ext.recipes.translation.data import teacher_steps

    run_steps(teacher_steps(load_config(options.config), engine_of(options)), dry_run=options.dry_run)


def _train_options(parser: ArgumentParser) -> None:
    parser.description = (
        "Train a system of an experiment, and first the one it starts from. Finished systems are not trained again; an "
        "interrupted training is resumed. Further options go to fairseq-train, such as --fp16, --bf16 or "
        "--update-freq 2; they count for this run only. All GPUs of the machine are used, and under torchrun or srun "
        "those of all machines."
    )
    add_config(parser)
    parser.add_argument("system", help="name under train: systems, or one run of it, as gad@2 or ft@LAW")
    add_dry_run(parser)
    add_jobs(parser)


def _train(options: Namespace) -> None:
    from fairseq_ext.engine.steps import run_steps
    from fairseq_ext.recipes.translation.config import load_config
    from fairseq_ext.recipes.translation.stages import training_steps

    steps = training_steps(load_config(options.config), options.system, options.extra)
    run_steps(steps, dry_run=options.dry_run, jobs=options.jobs, scheduler=options.scheduler)


def _add_config_and_dry_run(parser: ArgumentParser) -> None:
    add_config(parser)
    add_dry_run(parser)


def _made(options: Namespace, step_of: Callable[[Translation], Step]) -> Path | None:
    """Run a step of a translation experiment, and return its output; None if it was only planned."""
    from fairseq_ext.engine.steps import run_steps
    from fairseq_ext.recipes.translation.config import load_config

    step = step_of(load_config(options.config))
    run_steps([step], dry_run=options.dry_run)
    return None if options.dry_run else step.output


def _score_options(parser: ArgumentParser) -> None:
    parser.description = (
        "Score the translations of an experiment that have been made (sacrebleu: chrF and BLEU, or what evaluate: "
        "metrics names; COMET if evaluate: comet names a local model) and print the table."
    )
    _add_config_and_dry_run(parser)


def _score(options: Namespace) -> None:
    from fairseq_ext.recipes.translation.config import load_config
    from fairseq_ext.recipes.translation.measurement import SIGNATURES_FILE, scoring_step
    from fairseq_ext.recipes.translation.report import quality_and_advice

    if scores := _made(options, scoring_step):
        for block in quality_and_advice(load_config(options.config)):
            print(f"{block}\n")
        signatures = json.loads((scores / SIGNATURES_FILE).read_text(encoding="utf-8"))
        for metric, signature in signatures.items():
            print(f"{metric}: {signature}", file=sys.stderr)


def _report(options: Namespace) -> None:
    from fairseq_ext.recipes.translation.report import report

    if made := _made(options, report):
        print(made / "report.html")


VERBS = {
    "init": Verb("write an experiment file for a folder of corpora", _init_options, _init),
    "run": Verb("run a whole experiment, or some of its stages", _run_options, _run),
    "prepare": Verb("prepare an experiment's data", _prepare_options, _prepare),
    "teacher": Verb("train an experiment's domain classifier and label its data", _teacher_options, _teacher),
    "train": Verb("train a system of an experiment", _train_options, _train, passes_on=True),
    "score": Verb("score an experiment's translations and print the table", _score_options, _score),
    "report": Verb("write an experiment's report: a page, Markdown, pictures", _add_config_and_dry_run, _report),
}
