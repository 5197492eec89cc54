"""Command line of ``fairseq-ext rerank``: tune, apply, report."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.text_files import read_lines_like, write_lines
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.corpus_metrics import USUAL_TOKENIZER, bleu_metric
from fairseq_ext.report.measurements import Records
from fairseq_ext.report.render import Page, write_report
from fairseq_ext.reranking.bleu import TOKENIZERS, count_hypotheses
from fairseq_ext.reranking.evaluation import ALL, choose, evaluate, score_tables, with_others
from fairseq_ext.reranking.nbest import FIRST_BEST, ORACLE, WORDS, NBest, read_nbest
from fairseq_ext.reranking.sentence_scores import LanguageModelSource, score_texts
from fairseq_ext.reranking.tuning import Weights, find_weights

_NAME = re.compile(r"[\w.-]+")


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``fairseq-ext rerank``."""
    parser = argparse.ArgumentParser(description="Re-rank n-best lists of translations with language models.")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_tune(commands)
    _add_apply(commands)
    _add_report(commands)
    options = parser.parse_args(arguments)
    {"tune": tune, "apply": apply, "report": report}[options.command](options)


def tune(options: argparse.Namespace) -> None:
    """Find weights on a tuning list, and write them."""
    if options.restarts < 0:
        raise InputError(f"--restarts {options.restarts}: give 0 or more")
    nbest, sources = read_features(options)
    metric = bleu_metric(options.tokenize)
    counts = count_hypotheses(metric, nbest, _read_references(options, nbest))
    starts = [Weights.read(path).for_list(nbest, sources, path) for path in options.start]
    found = find_weights(nbest, counts, restarts=options.restarts, seed=options.seed, starts=starts, sources=sources)
    replace(found, about={**found.about, "signature": metric.signature}).write(options.output)
    scores = found.about["BLEU"]
    print(f"BLEU {scores['first_best']:.2f} first-best, {scores['tuned']:.2f} tuned: {options.output}")


def apply(options: argparse.Namespace) -> None:
    """Write the best hypothesis of each sentence."""
    weights = Weights.read(options.weights)
    nbest, sources = read_features(options)
    choice = nbest.best(weights.for_list(nbest, sources, options.weights))
    with atomic_write(options.output) as temporary:
        write_lines(temporary, nbest.chosen(choice))


def report(options: argparse.Namespace) -> None:
    """Write a report on one or several files of weights, and print it."""
    if options.resamples < 1:
        raise InputError(f"--resamples {options.resamples}: give 1 or more")
    also = {name: Path(file) for name, file in _named(options.also, "--also").items()}
    _check_rows(options.weights, [FIRST_BEST, ORACLE, *also])
    read = {path: Weights.read(path) for path in options.weights}
    nbest, sources = read_features(options)
    references = _read_references(options, nbest)
    counts = count_hypotheses(bleu_metric(options.tokenize), nbest, references)
    choices = choose(nbest, counts, {path.stem: own.for_list(nbest, sources, path) for path, own in read.items()})
    others = {name: read_lines_like(path, references, options.references) for name, path in also.items()}
    texts = with_others({name: nbest.chosen(choice) for name, choice in choices.items()}, others)
    records, comparisons = evaluate(
        texts,
        references,
        groups=read_groups(options.groups, references, options.references),
        pairs=[(row, baseline) for baseline, row in combinations([name for name in texts if name != ORACLE], 2)],
        tokenizer=options.tokenize,
        resamples=options.resamples,
        seed=options.seed,
    )
    summary = f"{len(references):,} sentences, {nbest.is_hypothesis.sum() / len(references):.1f} hypotheses of each."
    tables = score_tables(Records(records), options.tokenize)
    page = Page("Re-ranking", summary, {"Scores": tables}, comparisons)
    options.output.mkdir(parents=True, exist_ok=True)
    write_report(options.output, page, Records(records))
    print(page.markdown(), end="")


def _read_references(options: argparse.Namespace, nbest: NBest) -> list[str]:
    return read_lines_like(options.references, [own[0] for own in nbest.texts], options.nbest)


def read_groups(path: Path | None, references: Sequence[str], references_path: Path) -> dict[str, np.ndarray]:
    """The numbers of the sentences of each group, in the order in which they come."""
    if path is None:
        return {}
    names = read_lines_like(path, references, references_path)
    for number, name in enumerate(names, start=1):
        if not name.strip() or name == ALL:
            raise InputError(f"{path}, line {number}: {name!r} is no name of a group; give one to every sentence")
    return {name: np.flatnonzero(np.array(names) == name) for name in dict.fromkeys(names)}


def read_features(options: argparse.Namespace) -> tuple[NBest, dict[str, str]]:
    """The n-best list with the features that were asked for, and fingerprints of the language models by feature."""
    sources = read_sources(options)
    fingerprints = {source.name: source.fingerprint for source in sources}
    nbest = read_nbest(options.nbest)
    texts = nbest.all_texts()
    folder = options.scores or options.nbest.with_name(f"{options.nbest.name}.scores")
    columns = {source.name: score_texts(source, texts, folder) for source in sources}
    if options.word_count:
        columns[WORDS] = nbest.word_counts()
    return nbest.with_features(columns), fingerprints


def read_sources(options: argparse.Namespace) -> list[LanguageModelSource]:
    """The language models of ``--lm`` and ``--arpa``."""
    models, ngrams = _named(options.lm, "--lm"), _named(options.arpa, "--arpa")
    subwords, paths = _named(options.lm_subwords, "--lm-subwords"), _named(options.lm_paths, "--lm-paths")
    for name in models.keys() & ngrams.keys():
        raise InputError(f"--arpa {name}: --lm has this name already; give each its own")
    _check_known("--lm-subwords", subwords, [*models, *ngrams])
    _check_known("--lm-paths", paths, list(models))
    pieces = {name: Path(value) for name, value in subwords.items()}
    of_fairseq = partial(LanguageModelSource.of_fairseq, max_tokens=options.max_tokens, cpu=options.cpu)
    sources = []
    for name, value in models.items():
        checkpoint, colon, data = value.rpartition(":")
        if not colon:
            raise InputError(f"--lm {name}={value}: give NAME=CHECKPOINT:DATA, DATA being the folder with its dict.txt")
        sources.append(of_fairseq(name, Path(checkpoint), Path(data), pieces.get(name), paths=paths.get(name, "")))
    return sources + [LanguageModelSource.of_arpa(name, Path(v), pieces.get(name)) for name, v in ngrams.items()]


def _check_rows(paths: Sequence[Path], reserved: Sequence[str]) -> None:
    names = [*reserved, *(path.stem for path in paths)]
    if len(set(names)) < len(names):
        raise InputError(
            f"--weights: the files' names become rows and must differ, also from {', '.join(reserved)}; rename them"
        )


def _check_known(option: str, names: dict[str, str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"{option} {name}: no such --lm; there are {', '.join(sorted(known)) or 'none'}")


def _named(values: Sequence[str], option: str) -> dict[str, str]:
    """``NAME=VALUE`` of an option that may be given several times."""
    found: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not (equals and value and _NAME.fullmatch(name)):
            raise InputError(f"{option} {text}: give NAME=…, the name in letters, digits, '.', '_' or '-'")
        if name in found:
            raise InputError(f"{option} {name}: given twice; give each its own name")
        found[name] = value
    return found


def _add_tune(commands: argparse._SubParsersAction) -> None:
    command = _command(commands, "tune", "find the weights of the features that give the best BLEU on a tuning list")
    _add_references(command)
    command.add_argument("--output", type=Path, required=True, metavar="WEIGHTS.json", help="file to write")
    start = "weights to start from; may be given several times (default: the list's own score alone)"
    command.add_argument("--start", type=Path, action="append", default=[], metavar="WEIGHTS.json", help=start)
    command.add_argument("--restarts", type=int, default=20, help="random starts besides (default: 20)")
    command.add_argument("--seed", type=int, default=1, help="of the random starts (default: 1)")


def _add_apply(commands: argparse._SubParsersAction) -> None:
    command = _command(commands, "apply", "write the best hypothesis of each sentence, one a line")
    command.add_argument("--weights", type=Path, required=True, metavar="WEIGHTS.json", help="that tune wrote")
    command.add_argument("--output", type=Path, required=True, metavar="FILE", help="file to write")


def _add_report(commands: argparse._SubParsersAction) -> None:
    command = _command(commands, "report", "score a test list: first-best, re-ranked, oracle; with significance")
    _add_references(command)
    weights = "that tune wrote; each is a row, named by its file"
    command.add_argument("--weights", type=Path, nargs="+", required=True, metavar="WEIGHTS.json", help=weights)
    command.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for the report")
    _add_named(command, "--also", "FILE", "other translations of the same sentences, one a line, as a row")
    groups = "the group of every sentence, such as its domain, one a line; each is a column (default: none)"
    command.add_argument("--groups", type=Path, metavar="FILE", help=groups)
    command.add_argument("--resamples", type=int, default=1000, help="of the paired bootstrap (default: 1000)")
    command.add_argument("--seed", type=int, default=1, help="of the resamples (default: 1)")


def _command(commands: argparse._SubParsersAction, name: str, words: str) -> argparse.ArgumentParser:
    """A sub-command with the options of the list and its features."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=words, description=f"{words.capitalize()}.")
    command.add_argument(
        "nbest", type=Path, help="n-best list of Moses, or what fairseq-generate --nbest printed; may end in .gz"
    )
    group = command.add_argument_group("features beside those of the list")
    _add_named(group, "--lm", "CHECKPOINT:DATA", "log probability by a language model of fairseq with DATA/dict.txt")
    _add_named(group, "--arpa", "FILE", "log probability by an n-gram model in an ARPA file")
    subwords = "SentencePiece model, or folder of subwords, of text that this language model reads (default: words)"
    _add_named(group, "--lm-subwords", "FILE", subwords)
    paths = "for hierarchical adapters: domains or leaves separated by commas, all, or none (the base model)"
    _add_named(group, "--lm-paths", "PATHS", paths)
    words = f"number of words ({WORDS}); language models like short sentences"
    group.add_argument("--word-count", action="store_true", help=words)
    scores = "where scores are kept (default: NBEST.scores beside the list)"
    group.add_argument("--scores", type=Path, metavar="DIR", help=scores)
    group.add_argument("--max-tokens", type=int, default=4096, help="in a batch (default: 4096)")
    group.add_argument("--cpu", action="store_true", help="do not use a GPU")
    return command


def _add_named(parser: argparse._ActionsContainer, option: str, value: str, words: str) -> None:
    """An option ``NAME=VALUE`` that may be given several times."""
    words = f"{words}; may be given several times"
    parser.add_argument(option, action="append", default=[], metavar=f"NAME={value}", help=words)


def _add_references(command: argparse.ArgumentParser) -> None:
    command.add_argument("--references", type=Path, required=True, metavar="FILE", help="one a line")
    words = "sacrebleu's tokeniser; none for lists and references that are tokenised already (default: %(default)s)"
    command.add_argument("--tokenize", choices=TOKENIZERS, default=USUAL_TOKENIZER, help=words)
