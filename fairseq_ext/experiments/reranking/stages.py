"""Stages of the reranking recipe: from a translation experiment to re-ranked translations.

``lm-data/DOMAIN`` contains the domain's target side in the translation system's subwords, in the format of
``fairseq-preprocess --only-source``. ``word-vectors`` contains word2vec vectors trained on all domains,
``systems/NAME@DOMAIN`` a trained model, ``kneser-ney/DOMAIN`` an n-gram model, and ``nbest/SET`` the hypotheses of the
validation or test set.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import as_arguments, option_of, run_fairseq
from fairseq_ext.base.fairseq_options import FairseqCommand, named_files
from fairseq_ext.base.jobs import Engine
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step, versions
from fairseq_ext.data.binarise import binarise_files
from fairseq_ext.experiments.config import Place, Run
from fairseq_ext.experiments.dagru import KNESER_NEY, TASK, needs_vectors, ngram_step
from fairseq_ext.experiments.registry import Recipe
from fairseq_ext.experiments.reranking.config import LIST_FILE, GeneralVectors, Reranking
from fairseq_ext.experiments.reranking.measurement import rerank_step
from fairseq_ext.experiments.reranking.report import report
from fairseq_ext.experiments.train import BEST_CHECKPOINT, train_step
from fairseq_ext.experiments.tune import steps_of_runs
from fairseq_ext.text.split import HELD_OUT
from fairseq_ext.text.subwords import DICT_FILE, MODEL_FILE
from fairseq_ext.text.text_files import stream_lines

VECTORS_DIR, VECTORS_FILE = "word-vectors", "vectors.txt"
_MESSAGES_FILE = "generate.log"
_VERSION = 1


def stages_of(config: Reranking) -> list[Stage]:
    """Return the stages of an experiment, in order. Each language model is a stage with the model's name."""
    return [
        Stage("prepare", partial(preparation_steps, config)),
        *(Stage(name, partial(_training_steps, config, name), early=True) for name in config.systems),
        *([Stage(KNESER_NEY, partial(_ngram_steps, config, ngrams.order))] if (ngrams := config.kneser_ney) else []),
        Stage("translate", lambda: [_list_step(config, split) for split in HELD_OUT], early=True),
        Stage("rerank", lambda: [rerank_step(config)]),
        Stage("report", lambda: [report(config)]),
    ]


# Data of language models


def preparation_steps(config: Reranking, engine: Engine | None = None) -> list[Step]:
    """Return the steps that prepare the data of the language models."""
    steps = [_binarise_step(config, domain) for domain in config.domains]
    return [*steps, _vectors_step(config)] if any(map(needs_vectors, config.systems.values())) else steps


def _binarise_step(config: Reranking, domain: str) -> Step:
    given = config.translation
    files = {split: given.pieces(domain, split) for split in ("train", "valid")}
    dictionary = given.data / f"dict.{given.target_lang}.txt"

    def build(folder: Path) -> str:
        named = [(path.name, split) for split, path in files.items()]
        unknown = binarise_files(folder, files["train"].parent, [dictionary], named, Engine(workers=1))
        shutil.copyfile(dictionary, folder / DICT_FILE)
        return unknown

    options = {"version": _VERSION, "with": versions("fairseq-fixed")}
    return Step(config.lm_data(domain), [dictionary, *files.values()], options, build)


def _vectors_step(config: Reranking) -> Step:
    texts = [config.translation.pieces(domain, "train") for domain in config.domains]
    learned = {**config.word_vectors.model_dump(), "seed": config.seed}
    return Step(
        config.work_dir / VECTORS_DIR,
        texts,
        {"version": _VERSION, **learned, "with": versions("gensim")},
        lambda folder: _learn_vectors(folder / VECTORS_FILE, texts, config.word_vectors, config.seed),
    )


def _learn_vectors(path: Path, texts: list[Path], options: GeneralVectors, seed: int) -> None:
    """Train word2vec skip-gram vectors on the words of texts, and write them in word2vec's text format."""
    from gensim.models import Word2Vec

    model = Word2Vec(
        [line.split() for text in texts for line in stream_lines(text)],
        vector_size=options.dim,
        window=options.window,
        epochs=options.epochs,
        sg=1,
        min_count=1,
        seed=seed,
        workers=1,  # with several workers, the order of sentences is not deterministic
    )
    model.wv.save_word2vec_format(str(path))


# Language models


def _training_steps(config: Reranking, name: str) -> list[Step]:
    return steps_of_runs(config, config.runs[name], partial(_training_step, config))


def _training_step(config: Reranking, run: Run) -> Step:
    arguments = ["--task", TASK, "--seed", str(run.seed), "--no-epoch-checkpoints", *as_arguments(run.system.options)]
    inputs = [config.lm_data(str(run.domain))]
    if needs_vectors(run.system):
        inputs.append(config.work_dir / VECTORS_DIR)
        arguments += ["--word-vectors", str(inputs[-1] / VECTORS_FILE)]
    return train_step(config, run, inputs, arguments, {"system": run.system.options, "seed": run.seed})


def _ngram_steps(config: Reranking, order: int) -> list[Step]:
    texts = {domain: config.translation.pieces(domain, "train") for domain in config.domains}
    return [ngram_step(config.arpa_file(domain).parent, text, order) for domain, text in texts.items()]


# n-best lists


def _list_step(config: Reranking, split: str) -> Step:
    given = config.translation
    checkpoint = given.work_dir / "systems" / given.run / BEST_CHECKPOINT
    if not checkpoint.is_file():
        raise InputError(
            f"{config.path}: translation: run: {given.run!r} is not trained ({checkpoint} not found); run its "
            "experiment first, or choose another run"
        )
    arguments = ["--task", "multi_domain_translation", "--path", str(checkpoint), "--bpe", "sentencepiece"]
    arguments += ["--sentencepiece-model", str(given.data / MODEL_FILE), "--nbest", str(given.nbest)]
    if option_of(given.options, "beam") is None:
        arguments += ["--beam", str(given.nbest)]
    arguments += as_arguments(given.options)
    inputs = [given.data, checkpoint]
    inputs += named_files(arguments, "translate", inputs)

    def build(folder: Path) -> None:
        line = [str(given.data), "--gen-subset", split, *arguments]
        run_fairseq("generate", line, output=folder / LIST_FILE, messages=folder / _MESSAGES_FILE)

    place = Place(f"{config.path}: translation: options", tuple(given.options))
    return Step(
        config.list_file(split).parent,
        inputs,
        {"nbest": given.nbest, "split": split, **given.options},
        build,
        commands=[FairseqCommand("generate", tuple(arguments), place)],
        side_by_side=True,
    )


RECIPE = Recipe(Reranking, preparation_steps, stages_of)
