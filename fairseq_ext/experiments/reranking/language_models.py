"""Language models of every domain's target side, in the translation system's subwords, as steps.

``lm-data/DOMAIN`` is the domain's text as ``fairseq-preprocess --only-source`` makes it, ``word-vectors`` what
word2vec learns from all domains, ``systems/NAME@DOMAIN`` a trained model, ``kneser-ney/DOMAIN`` its n-grams.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.engine.fairseq_cli import as_arguments
from fairseq_ext.engine.steps import Step, versions
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.experiments.reranking.config import GeneralVectors, RerankingExperiment
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.train import train_step
from fairseq_ext.recipes.tune import steps_of_runs
from fairseq_ext.text.binarise import binarise_files
from fairseq_ext.text.subwords import DICT_FILE

TASK = "contiguous_language_modeling"
ARPA_FILE, VECTORS_FILE = "model.arpa", "vectors.txt"
_VERSION = 1


def data_dir(config: RerankingExperiment, domain: str) -> Path:
    """A domain's binarised text, and the dictionary."""
    return config.work_dir / "lm-data" / domain


def arpa_file(config: RerankingExperiment, domain: str) -> Path:
    """A domain's n-gram model."""
    return config.work_dir / "kneser-ney" / domain / ARPA_FILE


def data_steps(config: RerankingExperiment) -> list[Step]:
    """The steps that make what language models are trained on."""
    steps = [_binarise_step(config, domain) for domain in config.domains]
    return [*steps, *([_vectors_step(config)] if any(map(config.needs_vectors, config.systems)) else [])]


def training_steps(config: RerankingExperiment, name: str) -> list[Step]:
    """The steps that train a system, one a domain."""
    return steps_of_runs(config, config.runs(name), partial(_training_step, config))


def ngram_steps(config: RerankingExperiment) -> list[Step]:
    """The steps that count n-grams, one a domain."""
    return [_ngram_step(config, domain) for domain in config.domains]


def _binarise_step(config: RerankingExperiment, domain: str) -> Step:
    given = config.translation
    files = {split: given.pieces(domain, split) for split in ("train", "valid")}
    dictionary = given.data / f"dict.{given.target_lang}.txt"

    def build(folder: Path) -> str:
        named = [(path.name, split) for split, path in files.items()]
        unknown = binarise_files(folder, files["train"].parent, dictionary, named, Engine(workers=1))
        shutil.copyfile(dictionary, folder / DICT_FILE)
        return unknown

    options = {"version": _VERSION, "with": versions("fairseq-fixed")}
    return Step(data_dir(config, domain), [dictionary, *files.values()], options, build)


def _vectors_step(config: RerankingExperiment) -> Step:
    texts = [config.translation.pieces(domain, "train") for domain in config.domains]
    learned = {**dataclasses.asdict(config.word_vectors), "seed": config.seed}
    return Step(
        config.work_dir / "word-vectors",
        texts,
        {"version": _VERSION, **learned, "with": versions("gensim")},
        lambda folder: learn_vectors(folder / VECTORS_FILE, texts, config.word_vectors, config.seed),
    )


def learn_vectors(path: Path, texts: Sequence[Path], options: GeneralVectors, seed: int) -> None:
    """Learn vectors of the words of texts by word2vec's skip-gram, and write them in its text form."""
    from gensim.models import Word2Vec

    lines = [line.split() for text in texts for line in stream_lines(text)]
    # One thread: several take the sentences in any order.
    model = Word2Vec(
        lines,
        vector_size=options.dim,
        window=options.window,
        epochs=options.epochs,
        sg=1,
        min_count=1,
        seed=seed,
        workers=1,
    )
    model.wv.save_word2vec_format(str(path))


def _training_step(config: RerankingExperiment, run: Run) -> Step:
    arguments = ["--task", TASK, "--seed", str(run.seed), "--no-epoch-checkpoints", *as_arguments(run.system.options)]
    inputs = [data_dir(config, str(run.domain))]
    if config.needs_vectors(run.system.name):
        inputs.append(config.work_dir / "word-vectors")
        arguments += ["--word-vectors", str(inputs[-1] / VECTORS_FILE)]
    return train_step(config, run, inputs, arguments, {"system": run.system.options, "seed": run.seed})


def _ngram_step(config: RerankingExperiment, domain: str) -> Step:
    assert config.kneser_ney is not None
    text, held_out = (config.translation.pieces(domain, split) for split in ("train", "valid"))

    def build(folder: Path, order: int) -> None:
        from fairseq_ext.reranking.kneser_ney import train_kneser_ney

        train_kneser_ney(text, folder / ARPA_FILE, order=order, held_out=held_out)

    order = config.kneser_ney.order
    options = {"version": _VERSION, "order": order}
    return Step(arpa_file(config, domain).parent, [text, held_out], options, partial(build, order=order))
