"""Verbs of models: checkpoints in, out and looked through, tasks of classifiers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.cli.verbs import Verb, number


def _import_checkpoint_options(parser: ArgumentParser) -> None:
    parser.description = (
        "Import a checkpoint of one of fairseq's Transformers (transformer, BART, mBART, M2M, of whatever age) as a "
        "base for adapters, strictly. It is read without running anything in it."
    )
    add = parser.add_argument
    add("source", type=Path, metavar="FILE.pt", help="the checkpoint")
    add("output", type=Path, metavar="DIRECTORY", help="directory to make, with model.pt")


def _import_checkpoint(options: Namespace) -> None:
    from fairseq_ext.convert.checkpoints import import_checkpoint

    _make(options.output, [options.source], partial(import_checkpoint, options.source))
    _print_what_next(options.output)


def _make(output: Path, inputs: Sequence[Path], build: Callable[[Path], None], **given: Any) -> None:
    """Make a directory whole or not at all, and not again while inputs and options are the same."""
    from fairseq_ext.engine.steps import Step, run_steps

    run_steps([Step(output, inputs, {"version": 1, **given}, build)])


def _print_what_next(output: Path) -> None:
    """How to go on, as one would type it."""
    options = output / "options.txt"
    told = options.read_text(encoding="utf-8").strip() if options.is_file() else ""
    command = f"train on it with --arch transformer_gated_adapter --finetune-from-model {output / 'model.pt'} {told}"
    print(command.rstrip())


def _import_hf_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("source", type=Path, help="Hugging Face directory")
    add("output", type=Path, help="directory to make, with model.pt, dict.txt and the subwords' files")


def _import_gpt2(options: Namespace) -> None:
    from fairseq_ext.convert.gpt2 import TEXT_FILES, import_gpt2
    from fairseq_ext.convert.hugging_face import input_files

    _make(options.output, input_files(options.source, TEXT_FILES), partial(import_gpt2, options.source))


def _import_roberta(options: Namespace) -> None:
    from fairseq_ext.convert.hugging_face import input_files
    from fairseq_ext.convert.roberta import import_roberta
    from fairseq_ext.convert.subwords import TEXT_FILES

    _make(options.output, input_files(options.source, TEXT_FILES), partial(import_roberta, options.source))


def _import_translation_options(parser: ArgumentParser) -> None:
    parser.description = (
        "Import a translation model of Hugging Face's as a base for adapters: Marian (OPUS-MT), M2M-100, dense "
        "NLLB-200, mBART or mBART-50. The directory is one as save_pretrained or a snapshot of the hub leaves it. The "
        "output has the model, dictionaries, SentencePiece models, options.txt for fairseq's commands and "
        "generation.txt for the model's own search."
    )
    add = parser.add_argument
    add("source", type=Path, help="Hugging Face directory")
    add("output", type=Path, help="directory to make")
    add("--source-lang", metavar="NAME", help="as the model names it (default: what the tokenizer's files say)")
    add("--target-lang", metavar="NAME", help="likewise; of a model for several, the one that is wanted")


def _import_translation(options: Namespace) -> None:
    from fairseq_ext.convert.hugging_face import input_files
    from fairseq_ext.convert.translation_models import INPUT_FILES, import_translation_model

    languages = [options.source_lang, options.target_lang]
    build = partial(import_translation_model, options.source, languages=languages)
    _make(options.output, input_files(options.source, INPUT_FILES), build, languages=languages)
    _print_what_next(options.output)


def _export_hf_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("model", choices=["gpt2", "roberta"], help="what the checkpoint is; roberta is also for XLM-R")
    add("checkpoint", type=Path, help="fairseq checkpoint")
    add("output", type=Path, help="directory to make")
    add(
        "--subwords",
        type=Path,
        metavar="DIR",
        help="folder with dict.txt and the subwords' files (default: that of the checkpoint)",
    )


def _export_hf(options: Namespace) -> None:
    from fairseq_ext.convert.gpt2 import export_gpt2
    from fairseq_ext.convert.roberta import export_roberta
    from fairseq_ext.corpora.encoders import subword_files

    convert = {"gpt2": export_gpt2, "roberta": export_roberta}[options.model]
    subwords = options.subwords or options.checkpoint.parent
    inputs = [options.checkpoint, *(subwords / name for name in subword_files(subwords))]
    _make(options.output, inputs, partial(convert, options.checkpoint, subwords))


def _export_domain_options(parser: ArgumentParser) -> None:
    parser.description = (
        "Write a model with plain adapters, for one domain, as a plain fairseq transformer with a layer for every "
        "adapter: the same translations, for tools that know no adapters, such as CTranslate2."
    )
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="FILE.pt", help="checkpoint of plain, pre-norm adapters (AD)")
    add("domain", help="name of the domain")
    add("output", type=Path, metavar="DIRECTORY", help="directory to make, with model.pt")


def _export_domain(options: Namespace) -> None:
    from fairseq_ext.convert.checkpoints import export_domain

    build = partial(export_domain, options.checkpoint, options.domain)
    _make(options.output, [options.checkpoint], build, domain=options.domain)


def _check_options(parser: ArgumentParser) -> None:
    parser.description = (
        "Look through checkpoints of fairseq's: whether they hold anything but weights and plain options, and name "
        "anything but the models and tasks that are used here. Nothing is built of them."
    )
    parser.add_argument("checkpoints", type=Path, nargs="+", metavar="FILE.pt", help="checkpoints, one or more")


def _check(options: Namespace) -> None:
    from fairseq_ext.patches.checkpoints import check_checkpoint, check_stored_bytes, load_checkpoints_safely

    load_checkpoints_safely()
    for path in options.checkpoints:
        check_checkpoint(path)
        check_stored_bytes(path)
        print(f"{path}: holds weights and plain options, nothing else")


def _checkpoint_option(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="of roberta_houlsby_adapter")


def _list_tasks(options: Namespace) -> None:
    from fairseq_ext.classifiers.task_adapters import describe_tasks

    for line in describe_tasks(options.checkpoint):
        print(line)


def _save_task_options(parser: ArgumentParser) -> None:
    _checkpoint_option(parser)
    parser.add_argument("task", help="name of the task")
    parser.add_argument("folder", type=Path, help="folder to write adapters.safetensors and manifest.json to")


def _save_task(options: Namespace) -> None:
    from fairseq_ext.classifiers.task_adapters import save_task

    save_task(options.checkpoint, options.task, options.folder)


def _load_task_options(parser: ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="of the saved task")
    _checkpoint_option(parser)
    parser.add_argument("output", type=Path, help="checkpoint to write")


def _load_task(options: Namespace) -> None:
    from fairseq_ext.classifiers.task_adapters import load_task

    load_task(options.folder, options.checkpoint, options.output)


def _remove_task_options(parser: ArgumentParser) -> None:
    _checkpoint_option(parser)
    parser.add_argument("task", help="name of the task")
    parser.add_argument("output", type=Path, help="checkpoint to write")


def _remove_task(options: Namespace) -> None:
    from fairseq_ext.classifiers.task_adapters import remove_task

    remove_task(options.checkpoint, options.task, options.output)


def _classify_options(parser: ArgumentParser) -> None:
    parser.description = (
        "Label lines from standard input by a task of a trained model: prints the label, a tab and its probability for "
        "each, or the number that a regression predicts. A tab parts the two texts of a pair."
    )
    add = parser.add_argument
    add("checkpoint", type=Path, help="of roberta_houlsby_adapter, with the task")
    add("task", help="its name; fairseq-ext tasks list shows those of a checkpoint")
    add("--subwords", type=Path, required=True, help="folder of the base's subwords: WORK_DIR/subwords")
    add("--batch-size", type=number(1), default=64, help="lines at a time")
    add("--cpu", action="store_true", help="do not use a GPU")


def _classify(options: Namespace) -> None:
    from fairseq_ext.classifiers.predictions import classify, load_model
    from fairseq_ext.corpora.encoders import load_encoder
    from fairseq_ext.corpora.text_files import stdin_lines

    encode = load_encoder(options.subwords)
    model = load_model(options.checkpoint, options.subwords, cpu=options.cpu)
    for answer in classify(model, options.task, stdin_lines(), encode, options.batch_size):
        print(answer)


IMPORTS = {
    "checkpoint": Verb("import checkpoints of others", _import_checkpoint_options, _import_checkpoint),
    "hf": Verb("import a translation model of Hugging Face's", _import_translation_options, _import_translation),
    "gpt2": Verb("make a fairseq checkpoint of a GPT-2 of Hugging Face's", _import_hf_options, _import_gpt2),
    "roberta": Verb(
        "make a fairseq checkpoint of a RoBERTa, XLM-R or BERT of Hugging Face's", _import_hf_options, _import_roberta
    ),
}
TASKS = {
    "list": Verb("print the tasks of a checkpoint", _checkpoint_option, _list_tasks),
    "save": Verb("write a task alone", _save_task_options, _save_task),
    "load": Verb("write a checkpoint with a task that was saved alone", _load_task_options, _load_task),
    "remove": Verb("write a checkpoint without a task", _remove_task_options, _remove_task),
}
VERBS = {
    "check": Verb("look through checkpoints before use", _check_options, _check),
    "import": Verb("import models of others", verbs=IMPORTS),
    "export-hf": Verb("write a GPT-2 or RoBERTa in Hugging Face's form", _export_hf_options, _export_hf),
    "export-domain": Verb("write one domain's adapters as a plain Transformer", _export_domain_options, _export_domain),
    "tasks": Verb("list the tasks of a classifier, save, load and remove them", verbs=TASKS),
    "classify": Verb("label lines of text by a task", _classify_options, _classify),
}
