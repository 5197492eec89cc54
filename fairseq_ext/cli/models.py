"""Verbs for models: import, export and check checkpoints; tasks of classifiers; trees of language models."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fairseq_ext import install
from fairseq_ext.cli.verbs import Verb, argument, number

if TYPE_CHECKING:
    from fairseq_ext.base.sections import Section

    _Section = TypeVar("_Section", bound=Section)


def _import_checkpoint_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("source", type=Path, metavar="FILE.pt", help="fairseq checkpoint")
    add("output", type=Path, metavar="DIRECTORY", help="directory to write, with model.pt")


def _import_checkpoint(options: Namespace) -> None:
    """Import a checkpoint of a fairseq Transformer (transformer, BART, mBART, M2M, of any fairseq version) as a base
    for adapters. Its weights are checked strictly. No code in the checkpoint is executed.
    """
    from fairseq_ext.convert.checkpoints import import_checkpoint

    _make(options.output, [options.source], partial(import_checkpoint, options.source))
    _print_what_next(options.output)


def _make(output: Path, inputs: Sequence[Path], build: Callable[[Path], None], **given: Any) -> None:
    """Make a directory atomically, unless it is up to date with inputs and options."""
    from fairseq_ext.base.steps import Step, run_steps

    run_steps([Step(output, inputs, {"version": 1, **given}, build)])


def _print_what_next(output: Path) -> None:
    """Print the options for training on the imported model."""
    options = output / "options.txt"
    told = options.read_text(encoding="utf-8").strip() if options.is_file() else ""
    command = f"train on it with --arch transformer_gated_adapter --finetune-from-model {output / 'model.pt'} {told}"
    print(command.rstrip())


def _import_hf_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("source", type=Path, help="Hugging Face directory")
    add("output", type=Path, help="directory to write, with model.pt, dict.txt and the subword files")


def _import_lm_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("source", type=Path, help="directory with config.json and safetensors, or a GGUF file")
    add("output", type=Path, help="directory to write")


def _import_lm(options: Namespace) -> None:
    """Write a causal language model of Hugging Face (GPT-2, Llama, Qwen, OPT, …) as a base: its weights, tokenizer and
    dictionary, and model.pt, a checkpoint that names the directory. No code of the model is run.
    """
    from fairseq_ext.convert.causal_lm import import_causal_lm
    from fairseq_ext.models.causal_lm import weights_of

    inputs = [options.source] if options.source.is_dir() else list(weights_of(options.source))
    _make(options.output, inputs, partial(import_causal_lm, options.source, final=options.output))


def _import_roberta(options: Namespace) -> None:
    from fairseq_ext.convert.hugging_face import input_files
    from fairseq_ext.convert.roberta import import_roberta
    from fairseq_ext.convert.subwords import TEXT_FILES

    _make(options.output, input_files(options.source, TEXT_FILES), partial(import_roberta, options.source))


def _import_translation_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("source", type=Path, help="Hugging Face directory")
    add("output", type=Path, help="directory to write")
    add("--source-lang", metavar="NAME", help="language code of the model (default: from the tokenizer's files)")
    add("--target-lang", metavar="NAME", help="likewise; selects one if the model has several target languages")


def _import_translation(options: Namespace) -> None:
    """Import a Hugging Face translation model as a base for adapters: Marian (OPUS-MT), M2M-100, dense NLLB-200, mBART
    or mBART-50. The input is a directory written by save_pretrained, or a snapshot of the hub. The output has the
    model, dictionaries, SentencePiece models, options.txt for fairseq's commands and generation.txt with the model's
    search options.
    """
    from fairseq_ext.convert.hugging_face import input_files
    from fairseq_ext.convert.translation_models import INPUT_FILES, import_translation_model

    _import_base(options, input_files(options.source, INPUT_FILES), import_translation_model)


def _import_base(options: Namespace, inputs: Sequence[Path], convert: Callable[..., None]) -> None:
    """Import a translation model for its two languages."""
    languages = [options.source_lang, options.target_lang]
    build = partial(convert, options.source, languages=languages)
    _make(options.output, inputs, build, languages=languages)
    _print_what_next(options.output)


def _import_marian_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("source", type=Path, help="Marian's .npz or .bin with vocabularies beside it, or the folder")
    add("output", type=Path, help="directory to write")
    add("--source-lang", metavar="NAME", help="source language (default: from metadata.json or model.ende.….bin)")
    add("--target-lang", metavar="NAME", help="likewise; selects one if the model has several target languages")


def _import_marian(options: Namespace) -> None:
    """Import a model of Marian, such as OPUS-MT's and Firefox's, as a base for adapters. The output has the model,
    dictionaries, SentencePiece models, options.txt for fairseq's commands and generation.txt with the model's search
    options. Files may be compressed (.gz).
    """
    from fairseq_ext.convert.marian_folder import find_files
    from fairseq_ext.convert.marian_models import import_marian_model

    _import_base(options, find_files(options.source).inputs, import_marian_model)


def _export_domain_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="FILE.pt", help="checkpoint with plain adapters (AD), pre-norm")
    add("domain", help="name of the domain")
    add("output", type=Path, metavar="DIRECTORY", help="directory to write, with model.pt")


def _export_domain(options: Namespace) -> None:
    """Convert a model with plain adapters to a plain fairseq transformer for one domain, with an additional layer for
    each adapter. Translations are the same. For tools without support for adapters, such as CTranslate2.
    """
    from fairseq_ext.convert.checkpoints import export_domain

    build = partial(export_domain, options.checkpoint, options.domain)
    _make(options.output, [options.checkpoint], build, domain=options.domain)


def _check(options: Namespace) -> None:
    """Check that fairseq checkpoints contain only weights and plain options, and name only models and tasks that are
    used here. No model is built from them.
    """
    from fairseq_ext.patches.checkpoints import check_checkpoint, check_stored_bytes

    install()
    for path in options.checkpoints:
        check_checkpoint(path)
        check_stored_bytes(path)
        print(f"{path}: contains only weights and plain options")


def _list_tasks(options: Namespace) -> None:
    from fairseq_ext.classifiers.task_adapters import describe_tasks

    for line in describe_tasks(options.checkpoint):
        print(line)


def _save_task(options: Namespace) -> None:
    from fairseq_ext.classifiers.task_adapters import save_task

    save_task(options.checkpoint, options.task, options.folder)


def _load_task(options: Namespace) -> None:
    from fairseq_ext.classifiers.task_adapters import load_task

    load_task(options.folder, options.checkpoint, options.output)


def _remove_task(options: Namespace) -> None:
    from fairseq_ext.classifiers.task_adapters import remove_task

    remove_task(options.checkpoint, options.task, options.output)


def _classify_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", type=Path, help="checkpoint of roberta_houlsby_adapter with the task")
    add("task", help="name of the task; fairseq-ext tasks list prints those of a checkpoint")
    add("--subwords", type=Path, required=True, help="folder of the subwords of the base: WORK_DIR/subwords")
    add("--batch-size", type=number(1), default=64, help="lines per batch")
    add("--cpu", action="store_true", help="run on the CPU even if there is a GPU")


def _classify(options: Namespace) -> None:
    """Classify lines from standard input with a task of a trained model. Prints the label, a tab and its probability
    for each line, or the predicted number for regression. The two texts of a pair are separated by a tab.
    """
    from fairseq_ext.classifiers.predictions import classify, load_model
    from fairseq_ext.text.encoders import load_encoder
    from fairseq_ext.text.text_files import stdin_lines

    encode = load_encoder(options.subwords)
    model = load_model(options.checkpoint, options.subwords, cpu=options.cpu)
    for answer in classify(model, options.task, stdin_lines(), encode, options.batch_size):
        print(answer)


def _add_fields(parser: ArgumentParser, model: type[Section]) -> None:
    """Add an option for each field of a section, with the field's default, type and description."""
    for name, field in model.model_fields.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(field.default), default=field.default, help=field.description)


def _read_fields(options: Namespace, model: type[_Section]) -> _Section:
    """Make a section from the options of :func:`_add_fields`; raises InputError if a value is out of range."""
    from fairseq_ext.base.sections import read_model

    return read_model(model, {name: getattr(options, name) for name in model.model_fields}, "options", {})


def _induce_options(parser: ArgumentParser) -> None:
    from fairseq_ext.experiments.hierarchy.config import Induction

    add = parser.add_argument
    add("checkpoint", type=Path, help="fairseq checkpoint of a language model (transformer_lm)")
    add("data", type=Path, help="data directory with domains.txt, dict.txt, DOMAIN/train.{bin,idx}")
    add("output", type=Path, help="directory to write; skipped if up to date")
    _add_fields(parser, Induction)
    add("--cpu", action="store_true", help="run on the CPU even if there is a GPU")


def _induce(options: Namespace) -> None:
    """Induce a domain tree from text: a language model encodes sequences of each domain, a Gaussian mixture clusters
    them, and the nearest clusters are merged into a binary tree. Writes tree.json, clusters.npz (for fairseq-ext
    paths), clusters.json and a figure.
    """
    from fairseq_ext.base.steps import run_steps
    from fairseq_ext.experiments.hierarchy.config import Induction
    from fairseq_ext.experiments.hierarchy.induce_tree import describe_tree
    from fairseq_ext.experiments.hierarchy.stages import tree_step

    chosen = _read_fields(options, Induction)
    run_steps([tree_step(options.output, options.checkpoint, options.data, chosen, cpu=options.cpu)])
    print(describe_tree(options.output))


def _paths_options(parser: ArgumentParser) -> None:
    from fairseq_ext.experiments.hierarchy.config import PathChoice

    add = parser.add_argument
    add("checkpoint", type=Path, help="language model that the tree was induced with, or an adapted one")
    add("tree", type=Path, help="output directory of fairseq-ext induce")
    add("data", type=Path, help="data directory with domains.txt, dict.txt, DOMAIN/SPLIT.{bin,idx}")
    add("output", type=Path, help="directory to write; skipped if up to date")
    _add_fields(parser, PathChoice)
    add("--cpu", action="store_true", help="run on the CPU even if there is a GPU")


def _paths(options: Namespace) -> None:
    """Choose paths of an induced tree for the domains of a data directory. Sequences of each domain vote for leaves,
    and the paths to the chosen leaves are averaged. Prints the paths and writes paths.json (for --paths) and
    votes.json.
    """
    from fairseq_ext.base.steps import run_steps
    from fairseq_ext.experiments.hierarchy.config import PathChoice
    from fairseq_ext.experiments.hierarchy.induce_tree import describe_paths
    from fairseq_ext.experiments.hierarchy.stages import paths_step

    chosen = _read_fields(options, PathChoice)
    run_steps([paths_step(options.output, options.checkpoint, options.tree, options.data, chosen, cpu=options.cpu)])
    print(describe_paths(options.output, options.tree))


IMPORTS = {
    "checkpoint": Verb("import a fairseq checkpoint", [_import_checkpoint_options], _import_checkpoint),
    "hf": Verb("import a Hugging Face translation model", [_import_translation_options], _import_translation),
    "marian": Verb("import a model of Marian, OPUS-MT or Firefox", [_import_marian_options], _import_marian),
    "lm": Verb("import a causal language model of Hugging Face, or a GGUF file", [_import_lm_options], _import_lm),
    "roberta": Verb(
        "convert a Hugging Face RoBERTa, XLM-R or BERT to a fairseq checkpoint", [_import_hf_options], _import_roberta
    ),
}
_CHECKPOINT = argument("checkpoint", type=Path, help="checkpoint of roberta_houlsby_adapter")
_TASK = argument("task", help="name of the task")
_SAVED_TO = argument("folder", type=Path, help="folder to write adapters.safetensors and manifest.json to")
_SAVED = argument("folder", type=Path, help="folder of the saved task")
_OUTPUT = argument("output", type=Path, help="checkpoint to write")
TASKS = {
    "list": Verb("print the tasks of a checkpoint", [_CHECKPOINT], _list_tasks),
    "save": Verb("save the adapters of a task", [_CHECKPOINT, _TASK, _SAVED_TO], _save_task),
    "load": Verb("write a checkpoint with a saved task", [_SAVED, _CHECKPOINT, _OUTPUT], _load_task),
    "remove": Verb("write a checkpoint without a task", [_CHECKPOINT, _TASK, _OUTPUT], _remove_task),
}
VERBS = {
    "check": Verb(
        "check checkpoints before use",
        [argument("checkpoints", type=Path, nargs="+", metavar="FILE.pt", help="checkpoints, one or more")],
        _check,
    ),
    "import": Verb("import pretrained models", verbs=IMPORTS),
    "export-domain": Verb("convert one domain to a plain Transformer", [_export_domain_options], _export_domain),
    "tasks": Verb("list, save, load and remove the tasks of a classifier", verbs=TASKS),
    "classify": Verb("classify lines of text", [_classify_options], _classify),
}
TREES = {
    "induce": Verb("induce a domain tree from text", [_induce_options], _induce),
    "paths": Verb("choose paths of an induced tree for domains", [_paths_options], _paths),
}
