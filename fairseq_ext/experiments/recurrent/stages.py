"""Stages of the recurrent recipe: from text and word vectors to models and their report.

``text`` contains ``{train,valid,test}.txt``: words separated by single spaces, no blank lines. Words that are not in
the training text, or too rare for the vocabulary, are ``<unk>``. ``data-bin`` is the output of ``fairseq-preprocess
--only-source``. ``word-vectors`` contains general-domain vectors of the vocabulary's words, ``systems/RUN`` a training
run, and ``kneser-ney`` the n-gram model.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from functools import partial
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import as_arguments, option_of, run_fairseq
from fairseq_ext.base.jobs import Engine
from fairseq_ext.base.json_file import write_json
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step, versions
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.dagru import KNESER_NEY, TASK, ngram_step
from fairseq_ext.experiments.recurrent.config import COUNTS_FILE, DATA_DIR, TEXT_DIR, VECTORS_DIR, Recurrent
from fairseq_ext.experiments.recurrent.report import perplexity_steps, report
from fairseq_ext.experiments.registry import Recipe
from fairseq_ext.experiments.train import train_step
from fairseq_ext.experiments.tune import steps_of_runs
from fairseq_ext.text.raw_text import stream_canonical_lines
from fairseq_ext.text.split import HELD_OUT, SPLITS
from fairseq_ext.text.subwords import DICT_FILE
from fairseq_ext.text.text_files import write_lines

UNKNOWN = "<unk>"
_RESERVED = ("<s>", "</s>", "<pad>")  # fairseq's symbols
_PREPROCESS_LOG = "preprocess.log"  # contains timestamps
_TEXT_VERSION = _DATA_VERSION = 1
_VECTORS_VERSION = 2  # version 1 only counted the vectors
_TRAINING_VECTORS_VERSION = 2  # version 1 read the original file


def stages_of(config: Recurrent) -> list[Stage]:
    """Return the stages of an experiment, in order. Each system is a stage with the system's name."""
    train = partial(training_step, config)
    trainings = [
        Stage(name, partial(steps_of_runs, config, runs, train), early=True) for name, runs in config.runs.items()
    ]
    ngrams = config.kneser_ney
    return [
        Stage("prepare", partial(preparation_steps, config)),
        *trainings,
        *([Stage(KNESER_NEY, partial(_ngram_steps, config, ngrams.order))] if ngrams else []),
        Stage("evaluate", partial(perplexity_steps, config)),
        Stage("report", lambda: [report(config)]),
    ]


# Data


def preparation_steps(config: Recurrent, engine: Engine | None = None) -> list[Step]:
    """Return the preparation steps, in order. All write to ``config.work_dir``."""
    corpora = {split: getattr(config.corpora, split) for split in SPLITS}
    text, data = config.work_dir / TEXT_DIR, config.work_dir / DATA_DIR
    size = config.corpora.vocabulary
    options = {"version": _TEXT_VERSION, **({"vocabulary": size} if size else {})}
    steps = [
        Step(text, list(corpora.values()), options, lambda folder: write_texts(folder, corpora, size)),
        Step(data, [text], {"version": _DATA_VERSION, "with": versions("fairseq-fixed")}, lambda f: _binarise(f, text)),
    ]
    return [*steps, _vectors_step(config)] if config.vector_files else steps


def write_texts(folder: Path, corpora: dict[str, Path], vocabulary: int = 0) -> None:
    """Write the texts, and their numbers of lines, tokens and unknown words to ``counts.json``.

    ``vocabulary`` is the vocabulary size: the most frequent words of the training text and ``<unk>``; 0 for all words.
    """
    known = _most_frequent(_read_words(corpora[SPLITS[0]]), vocabulary)
    counts = {split: _write_text(folder / f"{split}.txt", path, known) for split, path in corpora.items()}
    if UNKNOWN not in known and any(counts[split]["unknown"] for split in HELD_OUT):
        print(
            f"{corpora['train']}: has no {UNKNOWN}, so models do not learn to predict unknown words; set corpora: "
            f"vocabulary, which replaces rare words by {UNKNOWN}",
            file=sys.stderr,
        )
    counts["train"]["words"] = len(known)
    write_json(folder / COUNTS_FILE, counts)


def _write_text(target: Path, source: Path, known: Set[str]) -> dict[str, int]:
    """Write a text line by line. Return its numbers of lines, tokens and unknown words."""
    counts = {"lines": 0, "tokens": 0, "unknown": 0}

    def lines() -> Iterator[str]:
        for words in _read_words(source):
            counts["lines"] += 1
            counts["tokens"] += len(words) + 1
            counts["unknown"] += sum(word not in known for word in words)
            yield " ".join(word if word in known else UNKNOWN for word in words)

    write_lines(target, lines())
    print(f"{source}: {counts['lines']:,} lines, {counts['unknown']:,} unknown words", file=sys.stderr)
    return counts


def _most_frequent(lines: Iterable[list[str]], count: int) -> set[str]:
    """Return the ``count`` most frequent words, including ``<unk>``; 0 for all. Ties are broken alphabetically."""
    counts = Counter(word for words in lines for word in words)
    if not count or len({UNKNOWN, *counts}) <= count:
        return set(counts)
    order = sorted(counts.keys() - {UNKNOWN}, key=lambda word: (-counts[word], word))
    return {UNKNOWN, *order[: count - 1]}


def _read_words(path: Path) -> Iterable[list[str]]:
    num_lines = 0
    for number, line in enumerate(stream_canonical_lines(path, "fail", Counter()), start=1):
        words = line.split(" ") if line else []
        for word in _RESERVED:
            if word in words:
                raise InputError(f"{path}, line {number}: has {word!r}, a reserved symbol; remove it")
        if words:
            num_lines += 1
            yield words
    if not num_lines:
        raise InputError(f"{path}: has no words; give words separated by spaces, one sentence per line")


def _binarise(folder: Path, text: Path) -> None:
    files = [f"--{split}pref={text / f'{split}.txt'}" for split in SPLITS]
    # No padding of the dictionary: additional symbols would take part of the probability.
    log = folder / _PREPROCESS_LOG  # fairseq also writes to this file
    run_fairseq(
        "preprocess", ["--only-source", *files, "--destdir", str(folder), "--padding-factor", "1"], messages=log
    )
    log.unlink()


def _vectors_step(config: Recurrent) -> Step:
    data, files = config.work_dir / DATA_DIR, [Path(file) for file in config.vector_files]

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq.data import Dictionary

        from fairseq_ext.data.word_vectors import cut_vectors

        words = Dictionary.load(str(data / DICT_FILE))
        for file in files:
            cut_vectors(words, file, folder / config.vectors_file(str(file)).name)

    options = {"version": _VECTORS_VERSION, "files": [str(file) for file in files], "with": versions("gensim")}
    return Step(config.work_dir / VECTORS_DIR, [data, *files], options, build)


# Models


def training_step(config: Recurrent, run: Run) -> Step:
    """Return the step that trains one run."""
    inputs, vectors = [config.work_dir / DATA_DIR], {}
    options = {key: value for key, value in run.system.options.items() if key.replace("_", "-") != "word-vectors"}
    arguments = ["--task", TASK, "--seed", str(run.seed), "--no-epoch-checkpoints", *as_arguments(options)]
    file = option_of(run.system.options, "word-vectors")
    if file:
        # The step depends on the extracted vectors, not on the path of the original file.
        inputs.append(config.vectors_file(file))
        arguments += ["--word-vectors", str(inputs[-1])]
        vectors = {"vectors": _TRAINING_VECTORS_VERSION}
    return train_step(config, run, inputs, arguments, {"system": options, "seed": run.seed, **vectors})


def _ngram_steps(config: Recurrent, order: int) -> list[Step]:
    return [ngram_step(config.work_dir / KNESER_NEY, config.text("train"), order, discounts="leave-one-out")]


RECIPE = Recipe(Recurrent, preparation_steps, stages_of)
