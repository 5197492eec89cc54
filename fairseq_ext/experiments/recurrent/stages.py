"""Stages of the recurrent recipe: from text and word vectors to models and their report.

``text`` contains ``{train,valid,test}.txt``: words separated by single spaces, no blank lines. Words that are not in
the training text, or too rare for the vocabulary, are ``<unk>``. ``data-bin`` is the output of ``fairseq-preprocess
--only-source``. ``word-vectors`` contains general-domain vectors of the vocabulary's words, ``systems/RUN`` a training
run, and ``kneser-ney`` the n-gram model.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import as_arguments, option_of, run_fairseq
from fairseq_ext.base.jobs import THIS_MACHINE, Engine
from fairseq_ext.base.json_file import read_json, write_json
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step, versions
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.dagru import KNESER_NEY, NGRAM_FILE, TASK, ngram_step
from fairseq_ext.experiments.grids import without
from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.metrics.render import Page
from fairseq_ext.experiments.ngrams import count_ngrams, likelihood
from fairseq_ext.experiments.recipe import Recipe
from fairseq_ext.experiments.recurrent.config import COUNTS_FILE, DATA_DIR, TEXT_DIR, VECTORS_DIR, Recurrent
from fairseq_ext.experiments.recurrent.report import PARAMETERS, PERPLEXITY, page
from fairseq_ext.experiments.report import measure_step
from fairseq_ext.experiments.train import best_checkpoint, train_step
from fairseq_ext.text.raw_text import stream_canonical_lines
from fairseq_ext.text.split import HELD_OUT, SPLITS
from fairseq_ext.text.subwords import DICT_FILE
from fairseq_ext.text.text_files import write_lines

UNKNOWN = "<unk>"
_RESERVED = ("<s>", "</s>", "<pad>")  # fairseq's symbols
_PREPROCESS_LOG = "preprocess.log"  # contains timestamps
_TEXT_VERSION = _DATA_VERSION = 1
_MEASUREMENT = {"version": 2}
_VECTORS_VERSION = 2  # version 1 only counted the vectors
_TRAINING_VECTORS_VERSION = 2  # version 1 read the original file


class RecurrentRecipe(Recipe[Recurrent]):
    """Recurrent language models on words."""

    experiment_type = Recurrent
    page_version = 9

    def prepare(self, engine: Engine = THIS_MACHINE) -> list[Step]:
        """Return the preparation steps, in order. All write below ``work_dir``."""
        config, work_dir = self.experiment, self.experiment.work_dir
        corpora = {split: getattr(config.corpora, split) for split in SPLITS}
        text, size = work_dir / TEXT_DIR, config.corpora.vocabulary
        of_text = {"version": _TEXT_VERSION, **({"vocabulary": size} if size else {})}
        of_data = {"version": _DATA_VERSION, "with": versions("fairseq-fixed")}
        return [
            Step(text, list(corpora.values()), of_text, lambda folder: write_texts(folder, corpora, size)),
            Step(work_dir / DATA_DIR, [text], of_data, lambda folder: _binarise(folder, text)),
            *([self._vectors_step()] if config.vector_files else []),
        ]

    def _vectors_step(self) -> Step:
        config, data = self.experiment, self.experiment.work_dir / DATA_DIR
        files = [Path(file) for file in config.vector_files]

        def build(folder: Path) -> None:
            # Loads fairseq.
            from fairseq.data import Dictionary

            from fairseq_ext.data.word_vectors import cut_vectors

            words = Dictionary.load(str(data / DICT_FILE))
            for file in files:
                cut_vectors(words, file, folder / config.vectors_file(str(file)).name)

        options = {"version": _VECTORS_VERSION, "files": [str(file) for file in files], "with": versions("gensim")}
        return Step(config.work_dir / VECTORS_DIR, [data, *files], options, build)

    def training_stages(self) -> list[Stage]:
        """Return a stage for each system, then that of the n-gram model."""
        ngrams, stages = self.experiment.kneser_ney, super().training_stages()
        return [*stages, Stage(KNESER_NEY, lambda: [self._train_ngrams(ngrams.order)])] if ngrams else stages

    def train_run(self, run: Run) -> Step:
        """Return the step that trains one run."""
        config, inputs = self.experiment, [self.experiment.work_dir / DATA_DIR]
        options, vectors = without(run.system.options, ["word-vectors"]), {}
        arguments = ["--task", TASK, "--seed", str(run.seed), "--no-epoch-checkpoints", *as_arguments(options)]
        file = option_of(run.system.options, "word-vectors")
        if file:
            # The step depends on the extracted vectors, not on the path of the original file.
            inputs.append(config.vectors_file(file))
            arguments += ["--word-vectors", str(inputs[-1])]
            vectors = {"vectors": _TRAINING_VECTORS_VERSION}
        return train_step(config, run, inputs, arguments, {"system": options, "seed": run.seed, **vectors})

    def _train_ngrams(self, order: int) -> Step:
        return ngram_step(self.experiment.work_dir / KNESER_NEY, self.experiment.text("train"), order)

    def measure(self) -> list[Step]:
        """Return the steps that measure all runs and the n-gram model: ``perplexity/RUN``."""
        ngrams = [self._measure_ngrams()] if self.experiment.kneser_ney else []
        return [*(self._measure_run(run) for run in self.experiment.all_runs), *ngrams]

    def _measure_run(self, run: Run) -> Step:
        config, work_dir = self.experiment, self.experiment.work_dir
        checkpoint, data = best_checkpoint(config, run.name), work_dir / DATA_DIR

        def measure() -> Iterator[Record]:
            # Loads fairseq.
            from fairseq_ext.experiments.scoring import score_contiguous

            likelihoods, parameters = score_contiguous(checkpoint, data, HELD_OUT, cpu=config.evaluate.cpu)
            sets = {split: (likelihood.nats, likelihood.tokens) for split, likelihood in likelihoods.items()}
            of = partial(Record, system=run.system.name, run=run.name, seed=run.seed)
            return records_of(of, sets, parameters)

        return measure_step(work_dir / "perplexity" / run.name, [checkpoint, data], _MEASUREMENT, measure)

    def _measure_ngrams(self) -> Step:
        work_dir = self.experiment.work_dir
        model = work_dir / KNESER_NEY / NGRAM_FILE
        texts = {split: self.experiment.text(split) for split in HELD_OUT}

        def measure() -> Iterator[Record]:
            sets = {split: likelihood(model, text) for split, text in texts.items()}
            return records_of(partial(Record, system=KNESER_NEY, run=KNESER_NEY), sets, count_ngrams(model))

        output = work_dir / "perplexity" / KNESER_NEY
        return measure_step(output, [model, *texts.values()], _MEASUREMENT, measure)

    def other_records(self) -> list[Record]:
        """Return the numbers of lines, tokens, words and unknown words in each split."""
        [path] = self.page_files()
        counts: Mapping[str, Mapping[str, int]] = read_json(path, "prepare the text again") if path.is_file() else {}
        return [
            Record(domain=split, metric=metric, value=value)
            for split, numbers in counts.items()
            for metric, value in numbers.items()
        ]

    def page_files(self) -> Sequence[Path]:
        """Return the file of the counts of the text."""
        return [self.experiment.work_dir / TEXT_DIR / COUNTS_FILE]

    def page(self, records: Records) -> Page:
        """Make the page of the tables and the figure of Zhang et al. (2016)."""
        return page(self.experiment, records)


RECIPE = RecurrentRecipe


def records_of(of: Callable[..., Record], sets: Mapping[str, tuple[float, int]], parameters: int) -> Iterator[Record]:
    """Return the records of a model.

    Args:
        of: creates a record of the model.
        sets: negative log-likelihood (nats) and number of tokens, by split.
    """
    yield of(metric=PARAMETERS, value=parameters)
    for split, (nats, tokens) in sets.items():
        yield of(domain=split, metric=PERPLEXITY, value=math.exp(nats / tokens), n=tokens)


# Text


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
