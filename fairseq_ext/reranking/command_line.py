"""Command line of ``scripts/rerank_nbest.py``: tune, apply, report."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.text_files import read_lines_like, write_lines
from fairseq_ext.engine.steps import atomic_write, step_fingerprint
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.corpus_metrics import USUAL_TOKENIZER, bleu_metric
from fairseq_ext.reranking.bleu_counts import TOKENIZERS, count_hypotheses
from fairseq_ext.reranking.nbest import NBest, read_references
from fairseq_ext.reranking.nbest_files import read_nbest
from fairseq_ext.reranking.report import ALL, FIRST_BEST, ORACLE, choose, compare, format_report
from fairseq_ext.reranking.sentence_scores import LanguageModelSource, score_texts
from fairseq_ext.reranking.tuning import first_weights, tune_weights
from fairseq_ext.reranking.weights import Weights

WORDS = "words"
REPORT_FILE, TABLE_FILE = "report.json", "report.md"
_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class FeatureList:
    """An n-best list with all features that were asked for.

    Attributes:
        nbest: the list.
        path: its file.
        sources: by feature, the fingerprint of the language model that it is of.
    """

    nbest: NBest
    path: Path
    sources: dict[str, str]


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/rerank_nbest.py``."""
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
    listed = read_features(options)
    nbest, references = listed.nbest, read_references(options.references, listed.nbest, listed.path)
    metric = bleu_metric(options.tokenize)
    counts = count_hypotheses(metric, nbest, references)
    if options.start is None:
        starts = [first_weights(nbest)]
    else:
        starts = [Weights.read(path).for_list(nbest, listed.sources, path) for path in options.start]
    values = tune_weights(nbest, counts, starts, restarts=options.restarts, seed=options.seed)
    first = np.zeros(len(references), dtype=int)
    scores = {
        name: round(metric.score(counts[np.arange(len(choice)), choice].sum(axis=0).tolist()), 4)
        for name, choice in (("first_best", first), ("start", nbest.best(starts[0])), ("tuned", nbest.best(values)))
    }
    about = {
        "BLEU": scores,
        "signature": metric.signature,
        "restarts": options.restarts,
        "seed": options.seed,
        "fingerprint": step_fingerprint(
            options.output,
            [listed.path, options.references],
            {"sources": listed.sources, "features": nbest.names, "starts": [own.tolist() for own in starts]},
        ),
    }
    found = dict(zip(nbest.names, values.tolist(), strict=True))
    Weights(found, listed.sources, about).write(options.output)
    print(f"BLEU {scores['first_best']:.2f} first-best, {scores['tuned']:.2f} tuned: {options.output}")


def apply(options: argparse.Namespace) -> None:
    """Write the best hypothesis of each sentence."""
    weights = Weights.read(options.weights)
    listed = read_features(options)
    choice = listed.nbest.best(weights.for_list(listed.nbest, listed.sources, options.weights))
    with atomic_write(options.output) as temporary:
        write_lines(temporary, listed.nbest.chosen(choice))


def report(options: argparse.Namespace) -> None:
    """Write the figures of one or several files of weights, and print them."""
    if options.resamples < 1:
        raise InputError(f"--resamples {options.resamples}: give 1 or more")
    files = {path.stem: path for path in options.weights}
    also = {name: Path(file) for name, file in _named(options.also, "--also").items()}
    if len(files) < len(options.weights) or files.keys() & {FIRST_BEST, ORACLE, *also}:
        raise InputError(
            "--weights: the files' names become rows and must differ, also from "
            f"{', '.join([FIRST_BEST, ORACLE, *also])}; rename them"
        )
    read = {name: Weights.read(path) for name, path in files.items()}
    listed = read_features(options)
    references = read_references(options.references, listed.nbest, listed.path)
    weights = {name: own.for_list(listed.nbest, listed.sources, files[name]) for name, own in read.items()}
    counts = count_hypotheses(bleu_metric(options.tokenize), listed.nbest, references)
    record = compare(
        listed.nbest,
        references,
        choose(listed.nbest, counts, weights),
        others={name: read_lines_like(path, references, options.references) for name, path in also.items()},
        groups=read_groups(options.groups, references, options.references),
        tokenizer=options.tokenize,
        resamples=options.resamples,
        seed=options.seed,
    )
    text = format_report(record)
    for name, content in ((REPORT_FILE, json.dumps(record, indent=1, ensure_ascii=False) + "\n"), (TABLE_FILE, text)):
        with atomic_write(options.output / name) as temporary:
            temporary.write_text(content, encoding="utf-8")
    print(text, end="")


def read_groups(path: Path | None, references: Sequence[str], references_path: Path) -> dict[str, np.ndarray]:
    """The numbers of the sentences of each group, in the order in which they come.

    Raises:
        InputError: if there are not as many lines as references, or one is empty.
    """
    if path is None:
        return {}
    names = read_lines_like(path, references, references_path)
    for number, name in enumerate(names, start=1):
        if not name.strip() or name == ALL:
            raise InputError(f"{path}, line {number}: {name!r} is no name of a group; give one to every sentence")
    return {name: np.flatnonzero(np.array(names) == name) for name in dict.fromkeys(names)}


def read_features(options: argparse.Namespace) -> FeatureList:
    """Read the n-best list, and add what language models say of it and the number of words.

    Raises:
        InputError: naming the option, the file or the line that cannot be used.
    """
    sources = read_sources(options)
    fingerprints = {source.name: source.fingerprint for source in sources}
    nbest = read_nbest(options.nbest)
    texts = nbest.all_texts()
    folder = options.scores or options.nbest.with_name(f"{options.nbest.name}.scores")
    columns = {source.name: score_texts(source, texts, folder) for source in sources}
    if options.word_count:
        columns[WORDS] = np.array([float(len(text.split())) for text in texts])
    return FeatureList(nbest.with_features(columns) if columns else nbest, options.nbest, fingerprints)


def read_sources(options: argparse.Namespace) -> list[LanguageModelSource]:
    """The language models of ``--lm`` and ``--arpa``."""
    models, ngrams = _named(options.lm, "--lm"), _named(options.arpa, "--arpa")
    subwords, paths = _named(options.lm_subwords, "--lm-subwords"), _named(options.lm_paths, "--lm-paths")
    for name in models.keys() & ngrams.keys():
        raise InputError(f"--arpa {name}: --lm has this name already; give each its own")
    for option, names, known in (
        ("--lm-subwords", subwords, models.keys() | ngrams.keys()),
        ("--lm-paths", paths, models.keys()),
    ):
        for name in names.keys() - known:
            raise InputError(f"{option} {name}: no such --lm; there are {', '.join(sorted(known)) or 'none'}")
    pieces = {name: Path(value) for name, value in subwords.items()}
    sources = []
    for name, value in models.items():
        checkpoint, colon, data = value.rpartition(":")
        if not colon:
            raise InputError(f"--lm {name}={value}: give NAME=CHECKPOINT:DATA, DATA being the folder with its dict.txt")
        sources.append(
            LanguageModelSource.of_fairseq(
                name,
                Path(checkpoint),
                Path(data),
                pieces.get(name),
                paths=paths.get(name, ""),
                max_tokens=options.max_tokens,
                cpu=options.cpu,
            )
        )
    return sources + [LanguageModelSource.of_arpa(name, Path(v), pieces.get(name)) for name, v in ngrams.items()]


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
    command.add_argument(
        "--start",
        type=Path,
        action="append",
        metavar="WEIGHTS.json",
        help="weights to start from; may be given several times (default: the list's own score alone)",
    )
    command.add_argument("--restarts", type=int, default=20, help="random starts besides (default: 20)")
    command.add_argument("--seed", type=int, default=1, help="of the random starts (default: 1)")
    command.add_argument("--metric", choices=["bleu"], default="bleu", help="what is tuned for (default: bleu)")


def _add_apply(commands: argparse._SubParsersAction) -> None:
    command = _command(commands, "apply", "write the best hypothesis of each sentence, one a line")
    command.add_argument("--weights", type=Path, required=True, metavar="WEIGHTS.json", help="that tune wrote")
    command.add_argument("--output", type=Path, required=True, metavar="FILE", help="file to write")


def _add_report(commands: argparse._SubParsersAction) -> None:
    command = _command(commands, "report", "score a test list: first-best, re-ranked, oracle; with significance")
    _add_references(command)
    command.add_argument(
        "--weights",
        type=Path,
        nargs="+",
        required=True,
        metavar="WEIGHTS.json",
        help="that tune wrote; each is a row, named by its file",
    )
    command.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help=f"folder for {REPORT_FILE} and {TABLE_FILE}"
    )
    command.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="other translations of the same sentences, one a line, as a row; may be given several times",
    )
    command.add_argument(
        "--groups",
        type=Path,
        metavar="FILE",
        help="the group of every sentence, such as its domain, one a line; each is a column (default: none)",
    )
    command.add_argument("--resamples", type=int, default=1000, help="of the paired bootstrap (default: 1000)")
    command.add_argument("--seed", type=int, default=1, help="of the resamples (default: 1)")


def _command(commands: argparse._SubParsersAction, name: str, words: str) -> argparse.ArgumentParser:
    """A sub-command with the options of the list and its features."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=words, description=f"{words.capitalize()}.")
    command.add_argument(
        "nbest", type=Path, help="n-best list of Moses, or what fairseq-generate --nbest printed; may end in .gz"
    )
    group = command.add_argument_group("features beside those of the list")
    group.add_argument(
        "--lm",
        action="append",
        default=[],
        metavar="NAME=CHECKPOINT:DATA",
        help="log probability by a language model of fairseq, whose dict.txt is in DATA; may be given several times",
    )
    group.add_argument(
        "--arpa",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="log probability by an n-gram model in an ARPA file; may be given several times",
    )
    group.add_argument(
        "--lm-subwords",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="SentencePiece model, or folder of subwords, of text that this language model reads (default: words)",
    )
    group.add_argument(
        "--lm-paths",
        action="append",
        default=[],
        metavar="NAME=PATHS",
        help="for hierarchical adapters: domains or leaves separated by commas, all, or none (the base model)",
    )
    group.add_argument(
        "--word-count", action="store_true", help=f"number of words ({WORDS}); language models like short sentences"
    )
    group.add_argument(
        "--scores", type=Path, metavar="DIR", help="where scores are kept (default: NBEST.scores beside the list)"
    )
    group.add_argument("--max-tokens", type=int, default=4096, help="in a batch (default: 4096)")
    group.add_argument("--cpu", action="store_true", help="do not use a GPU")
    return command


def _add_references(command: argparse.ArgumentParser) -> None:
    command.add_argument("--references", type=Path, required=True, metavar="FILE", help="one a line")
    command.add_argument(
        "--tokenize",
        choices=TOKENIZERS,
        default=USUAL_TOKENIZER,
        help="sacrebleu's tokeniser; none for lists and references that are tokenised already (default: %(default)s)",
    )
