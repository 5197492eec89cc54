"""Verbs for language models: domain trees, n-grams, re-ranking."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _ArgumentGroup
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fairseq_ext.cli.verbs import Verb, number
from fairseq_ext.inputs.errors import InputError

_TOKENIZERS = ("none", "13a", "intl", "char", "zh")

if TYPE_CHECKING:
    from fairseq_ext.inputs.models import Section
    from fairseq_ext.recipes.reranking.rerank import Listed

    _Section = TypeVar("_Section", bound=Section)


def _add_fields(parser: ArgumentParser, model: type[Section]) -> None:
    """Add an option for each field of a section, with the field's default, type and description."""
    for name, field in model.model_fields.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(field.default), default=field.default, help=field.description)


def _read_fields(options: Namespace, model: type[_Section]) -> _Section:
    """Make a section from the options of :func:`_add_fields`; raises InputError if a value is out of range."""
    from fairseq_ext.inputs.models import read_model

    return read_model(model, {name: getattr(options, name) for name in model.model_fields}, "options", {})


def _induce_options(parser: ArgumentParser) -> None:
    from fairseq_ext.recipes.hierarchy.config import Induction

    parser.description = (
        "Induce a domain tree from text: a language model encodes sequences of each domain, a Gaussian mixture "
        "clusters them, and the nearest clusters are merged into a binary tree. Writes tree.json, clusters.npz (for "
        "fairseq-ext paths), clusters.json and a figure."
    )
    add = parser.add_argument
    add("checkpoint", type=Path, help="fairseq checkpoint of a language model (transformer_lm)")
    add("data", type=Path, help="data directory with domains.txt, dict.txt, DOMAIN/train.{bin,idx}")
    add("output", type=Path, help="directory to write; skipped if up to date")
    _add_fields(parser, Induction)
    add("--cpu", action="store_true", help="run on the CPU even if there is a GPU")


def _induce(options: Namespace) -> None:
    from fairseq_ext.engine.steps import run_steps
    from fairseq_ext.recipes.hierarchy.config import Induction
    from fairseq_ext.recipes.hierarchy.induce_tree import describe_tree
    from fairseq_ext.recipes.hierarchy.stages import tree_step

    chosen = _read_fields(options, Induction)
    run_steps([tree_step(options.output, options.checkpoint, options.data, chosen, cpu=options.cpu)])
    print(describe_tree(options.output))


def _paths_options(parser: ArgumentParser) -> None:
    from fairseq_ext.recipes.hierarchy.config import PathChoice

    parser.description = (
        "Choose paths of an induced tree for the domains of a data directory. Sequences of each domain vote for "
        "leaves, and the paths to the chosen leaves are averaged. Prints the paths and writes paths.json (for --paths) "
        "and votes.json."
    )
    add = parser.add_argument
    add("checkpoint", type=Path, help="language model that the tree was induced with, or an adapted one")
    add("tree", type=Path, help="output directory of fairseq-ext induce")
    add("data", type=Path, help="data directory with domains.txt, dict.txt, DOMAIN/SPLIT.{bin,idx}")
    add("output", type=Path, help="directory to write; skipped if up to date")
    _add_fields(parser, PathChoice)
    add("--cpu", action="store_true", help="run on the CPU even if there is a GPU")


def _paths(options: Namespace) -> None:
    from fairseq_ext.engine.steps import run_steps
    from fairseq_ext.recipes.hierarchy.config import PathChoice
    from fairseq_ext.recipes.hierarchy.induce_tree import describe_paths
    from fairseq_ext.recipes.hierarchy.stages import paths_step

    chosen = _read_fields(options, PathChoice)
    run_steps([paths_step(options.output, options.checkpoint, options.tree, options.data, chosen, cpu=options.cpu)])
    print(describe_paths(options.output, options.tree))


def _ngrams_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("text", type=Path, help="text with words separated by spaces, one sentence per line")
    add("arpa", type=Path, help="ARPA file to write")
    add("--order", type=number(2, 6), default=5, help="maximum n-gram order")
    add("--test", type=Path, nargs="*", default=[], help="texts to print the perplexity of")


def _ngrams(options: Namespace) -> None:
    import math

    from fairseq_ext.recipes.kneser_ney import likelihood, train_kneser_ney

    train_kneser_ney(options.text, options.arpa, order=options.order)
    for path in options.test:
        nats, tokens = likelihood(options.arpa, path)
        print(f"{path}: perplexity {math.exp(nats / tokens):.2f} over {tokens:,} tokens")


def _feature_options(parser: ArgumentParser) -> None:
    """Add the n-best list and its features."""
    parser.add_argument(
        "nbest", type=Path, help="n-best list in Moses format, or output of fairseq-generate --nbest; may end in .gz"
    )
    group = parser.add_argument_group("features in addition to those of the list")
    _add_named(group, "--lm", "CHECKPOINT:DATA", "log probability from a fairseq language model with DATA/dict.txt")
    _add_named(group, "--arpa", "FILE", "log probability from an n-gram model in an ARPA file")
    subwords = "SentencePiece model or folder of subwords of the language model NAME (default: words)"
    _add_named(group, "--lm-subwords", "FILE", subwords)
    add = group.add_argument
    add("--word-count", action="store_true", help="number of words, because language models favour short sentences")
    add("--scores", type=Path, metavar="DIR", help="cache directory (default: NBEST.scores next to the list)")
    add("--max-tokens", type=int, default=4096, help="maximum number of tokens per batch")
    add("--cpu", action="store_true", help="run on the CPU even if there is a GPU")


def _add_named(parser: ArgumentParser | _ArgumentGroup, option: str, value: str, words: str) -> None:
    """Add an option ``NAME=VALUE`` that may be repeated."""
    words = f"{words}; may be repeated"
    parser.add_argument(option, action="append", default=[], metavar=f"NAME={value}", help=words)


def _named(values: Sequence[str], option: str) -> dict[str, str]:
    """Parse the values of an option of :func:`_add_named`, by name."""
    import re

    found: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not (equals and value and re.fullmatch(r"[\w.-]+", name)):
            raise InputError(
                f"{option} {text}: expected NAME=…, where the name has only letters, digits, '.', '_' or '-'"
            )
        if name in found:
            raise InputError(f"{option} {name}: is given twice; use different names")
        found[name] = value
    return found


def _listed(options: Namespace) -> Listed:
    from fairseq_ext.recipes.reranking.rerank import read_list

    return read_list(
        options.nbest,
        models=_named(options.lm, "--lm"),
        ngrams={name: Path(value) for name, value in _named(options.arpa, "--arpa").items()},
        subwords={name: Path(value) for name, value in _named(options.lm_subwords, "--lm-subwords").items()},
        word_count=options.word_count,
        scores=options.scores,
        max_tokens=options.max_tokens,
        cpu=options.cpu,
    )


def _reference_options(parser: ArgumentParser) -> None:
    parser.add_argument("--references", type=Path, required=True, metavar="FILE", help="references, one per line")
    words = "sacrebleu tokeniser; none for tokenised lists and references"
    parser.add_argument("--tokenize", choices=_TOKENIZERS, default="13a", help=words)


def _tune_options(parser: ArgumentParser) -> None:
    _feature_options(parser)
    _reference_options(parser)
    add = parser.add_argument
    add("--output", type=Path, required=True, metavar="WEIGHTS.json", help="file to write")
    add("--restarts", type=number(0), default=20, help="number of random starts, in addition to the score of the list")
    add("--seed", type=int, default=1, help="random seed of the starts")


def _tune(options: Namespace) -> None:
    from fairseq_ext.recipes.reranking.rerank import tune

    tune(
        _listed(options),
        options.references,
        options.output,
        restarts=options.restarts,
        seed=options.seed,
        tokenizer=options.tokenize,
    )


def _apply_options(parser: ArgumentParser) -> None:
    _feature_options(parser)
    parser.add_argument("--weights", type=Path, required=True, metavar="WEIGHTS.json", help="output of tune")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file to write")


def _apply(options: Namespace) -> None:
    from fairseq_ext.recipes.reranking.rerank import apply

    apply(_listed(options), options.weights, options.output)


def _report_options(parser: ArgumentParser) -> None:
    _feature_options(parser)
    _reference_options(parser)
    add = parser.add_argument
    weights = "outputs of tune; each is a row, named after its file"
    add("--weights", type=Path, nargs="+", required=True, metavar="WEIGHTS.json", help=weights)
    add("--output", type=Path, required=True, metavar="DIR", help="folder for the report")
    _add_named(parser, "--also", "FILE", "other translations of the same sentences, one per line, as a row")
    groups = "groups of the sentences, such as domains, one per line; each group is a column (default: none)"
    add("--groups", type=Path, metavar="FILE", help=groups)
    add("--resamples", type=number(1), default=1000, help="number of resamples of the paired bootstrap")
    add("--seed", type=int, default=1, help="random seed of the resamples")


def _report(options: Namespace) -> None:
    from fairseq_ext.recipes.reranking.rerank import report

    report(
        _listed(options),
        options.references,
        options.weights,
        options.output,
        also={name: Path(file) for name, file in _named(options.also, "--also").items()},
        groups=options.groups,
        resamples=options.resamples,
        seed=options.seed,
        tokenizer=options.tokenize,
    )


RERANK = {
    "tune": Verb("find feature weights that maximise BLEU on a tuning list", _tune_options, _tune),
    "apply": Verb("write the best hypothesis of each sentence, one per line", _apply_options, _apply),
    "report": Verb("score a test list: first-best, re-ranked and oracle, with significance", _report_options, _report),
}
VERBS = {
    "induce": Verb("induce a domain tree from text", _induce_options, _induce),
    "paths": Verb("choose paths of an induced tree for domains", _paths_options, _paths),
    "ngrams": Verb("train an n-gram language model with modified Kneser-Ney smoothing", _ngrams_options, _ngrams),
    "rerank": Verb("re-rank n-best lists of translations with language models", verbs=RERANK),
}
