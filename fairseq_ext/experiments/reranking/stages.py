"""Stages of the reranking recipe: from a translation experiment to re-ranked translations.

``lm-data/DOMAIN`` contains the domain's target side in the translation system's subwords, in the format of
``fairseq-preprocess --only-source``. ``word-vectors`` contains word2vec vectors trained on all domains,
``systems/NAME@DOMAIN`` a trained model, ``kneser-ney/DOMAIN`` an n-gram model, and ``nbest/SET`` the hypotheses of the
validation or test set.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import as_arguments, option_of, run_fairseq
from fairseq_ext.base.fairseq_options import FairseqCommand, named_files
from fairseq_ext.base.jobs import THIS_MACHINE, Engine
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step, versions
from fairseq_ext.data.binarise import binarise_files
from fairseq_ext.experiments.config import Place, Run
from fairseq_ext.experiments.dagru import KNESER_NEY, TASK, needs_vectors, ngram_step
from fairseq_ext.experiments.metrics.comparison import COMPARISONS_FILE, read_comparisons
from fairseq_ext.experiments.metrics.records import Records
from fairseq_ext.experiments.metrics.render import Page
from fairseq_ext.experiments.recipe import Recipe
from fairseq_ext.experiments.reranking.config import LIST_FILE, GeneralVectors, Reranking
from fairseq_ext.experiments.reranking.measure import rerank_step
from fairseq_ext.experiments.reranking.report import page
from fairseq_ext.experiments.train import BEST_CHECKPOINT, train_step
from fairseq_ext.text.split import HELD_OUT
from fairseq_ext.text.subwords import DICT_FILE, MODEL_FILE
from fairseq_ext.text.text_files import stream_lines

VECTORS_DIR, VECTORS_FILE = "word-vectors", "vectors.txt"
_MESSAGES_FILE = "generate.log"
_VERSION = 1


class RerankingRecipe(Recipe[Reranking]):
    """Re-ranking of n-best lists by language models."""

    experiment_type = Reranking
    measuring = "rerank"
    page_version = 3

    def prepare(self, engine: Engine = THIS_MACHINE) -> list[Step]:
        """Return the steps that prepare the data of the language models."""
        config = self.experiment
        steps = [_binarise_step(config, domain) for domain in config.domains]
        return [*steps, self._vectors_step()] if any(map(needs_vectors, config.systems.values())) else steps

    def _vectors_step(self) -> Step:
        config = self.experiment
        texts = [config.translation.pieces(domain, "train") for domain in config.domains]
        learned = {**config.word_vectors.model_dump(), "seed": config.seed}
        options = {"version": _VERSION, **learned, "with": versions("gensim")}
        learn = partial(_learn_vectors, texts=texts, options=config.word_vectors, seed=config.seed)
        return Step(config.work_dir / VECTORS_DIR, texts, options, learn)

    def training_stages(self) -> list[Stage]:
        """Return a stage for each language model, then those of the n-gram models and the n-best lists."""
        ngrams, stages = self.experiment.kneser_ney, super().training_stages()
        stages += [Stage(KNESER_NEY, partial(self._train_ngrams, ngrams.order))] if ngrams else []
        return [*stages, Stage("translate", self._translate, early=True)]

    def train_run(self, run: Run) -> Step:
        """Return the step that trains the language model of a domain."""
        config, options = self.experiment, run.system.options
        arguments = ["--task", TASK, "--seed", str(run.seed), "--no-epoch-checkpoints", *as_arguments(options)]
        inputs = [config.lm_data(str(run.domain))]
        if needs_vectors(run.system):
            inputs.append(config.work_dir / VECTORS_DIR)
            arguments += ["--word-vectors", str(inputs[-1] / VECTORS_FILE)]
        return train_step(config, run, inputs, arguments, {"system": options, "seed": run.seed})

    def _train_ngrams(self, order: int) -> list[Step]:
        config = self.experiment
        texts = {domain: config.translation.pieces(domain, "train") for domain in config.domains}
        return [ngram_step(config.ngram_file(domain).parent, text, order) for domain, text in texts.items()]

    def _translate(self) -> list[Step]:
        return [_list_step(self.experiment, split) for split in HELD_OUT]

    def measure(self) -> list[Step]:
        """Return the step that re-ranks and scores the lists."""
        return [rerank_step(self.experiment)]

    def page_files(self) -> Sequence[Path]:
        """Return the file of comparisons."""
        return [self.experiment.work_dir / "reranked" / COMPARISONS_FILE]

    def page(self, records: Records) -> Page:
        """Make the page of Table 5 of Zhang et al. (2016) and of perplexities."""
        [comparisons] = self.page_files()
        return page(self.experiment, records, read_comparisons(comparisons))


RECIPE = RerankingRecipe


# Data of language models


def _binarise_step(config: Reranking, domain: str) -> Step:
    translation = config.translation
    files = {split: translation.pieces(domain, split) for split in ("train", "valid")}
    dictionary = translation.data / f"dict.{translation.target_lang}.txt"

    def build(folder: Path) -> str:
        named = [(path.name, split) for split, path in files.items()]
        unknown = binarise_files(folder, files["train"].parent, [dictionary], named, Engine(workers=1))
        shutil.copyfile(dictionary, folder / DICT_FILE)
        return unknown

    options = {"version": _VERSION, "with": versions("fairseq-fixed")}
    return Step(config.lm_data(domain), [dictionary, *files.values()], options, build)


def _learn_vectors(folder: Path, texts: list[Path], options: GeneralVectors, seed: int) -> None:
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
    model.wv.save_word2vec_format(str(folder / VECTORS_FILE))


# n-best lists


def _list_step(config: Reranking, split: str) -> Step:
    translation = config.translation
    checkpoint = translation.work_dir / "systems" / translation.run / BEST_CHECKPOINT
    if not checkpoint.is_file():
        raise InputError(
            f"{config.path}: translation: run: {translation.run!r} is not trained ({checkpoint} not found); run its "
            "experiment first, or choose another run"
        )
    arguments = ["--task", "multi_domain_translation", "--path", str(checkpoint), "--bpe", "sentencepiece"]
    arguments += ["--sentencepiece-model", str(translation.data / MODEL_FILE), "--nbest", str(translation.nbest)]
    if option_of(translation.options, "beam") is None:
        arguments += ["--beam", str(translation.nbest)]
    arguments += as_arguments(translation.options)
    inputs = [translation.data, checkpoint]
    inputs += named_files(arguments, "translate", inputs)

    def build(folder: Path) -> None:
        line = [str(translation.data), "--gen-subset", split, *arguments]
        run_fairseq("generate", line, output=folder / LIST_FILE, messages=folder / _MESSAGES_FILE)

    place = Place(f"{config.path}: translation: options", tuple(translation.options))
    options = {"nbest": translation.nbest, "split": split, **translation.options}
    commands = [FairseqCommand("generate", tuple(arguments), place)]
    return Step(config.list_file(split).parent, inputs, options, build, commands=commands, side_by_side=True)
