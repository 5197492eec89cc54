"""Shared parts of recipes with language models of several domains: configuration, preparation and training.

The preparation steps are ``corpora``, ``splits``, ``subwords``, ``encoded`` and ``data-bin``. ``data-bin`` has the
training domains and ``data-bin-unseen`` the unseen domains, with the same dictionary. Both contain ``domains.txt``,
``dict.txt``, the subword model, and ``DOMAIN/{train,valid,test}.{bin,idx}`` with ``</s>`` after every line.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import field_validator, model_validator

from fairseq_ext.base.domain_names import DOMAINS_FILE, check_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import as_arguments, check_counts, option_of
from fairseq_ext.base.jobs import THIS_MACHINE, Engine, fill_by_jobs
from fairseq_ext.base.sections import File, Section
from fairseq_ext.base.steps import Step, versions
from fairseq_ext.data.binarise import binarise_files
from fairseq_ext.experiments.base import BASE, Base, ExperimentOnBase
from fairseq_ext.experiments.config import Experiment, Run, System
from fairseq_ext.experiments.recipe import Recipe
from fairseq_ext.experiments.train import best_checkpoint, train_step
from fairseq_ext.modules.language_model_options import CAUSAL_LM, CHUNKED_CRITERION, LANGUAGE_MODELING_TASK
from fairseq_ext.text.encoders import TOKENIZER_FILES, encode_texts, subword_files
from fairseq_ext.text.entries import domain_files
from fairseq_ext.text.folded_text import BLANK
from fairseq_ext.text.line_split import LanguageModelSplit, text_path, write_text_splits
from fairseq_ext.text.raw_text import stream_canonical_lines
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import DICT_FILE, SentencePiece, train_sentencepiece
from fairseq_ext.text.text_files import write_lines

DATA_DIR, UNSEEN_DATA_DIR = "data-bin", "data-bin-unseen"
BASE_CHECKPOINT = "model.pt"
_ENDING = "txt"
_DEFAULT_BLOCK = 1024  # as in fairseq
_BASE_VERSION = 2  # in version 1, lines ended with the model's end of text
_NODES_VERSION = 2  # in version 1, Adam counted the steps of all nodes for each node


class TextFolder(Section):
    """Text, by domain."""

    folder: File
    """Folder with a file DOMAIN.txt for each domain."""
    on_bad_utf8: Literal["fail", "drop", "replace"] = "fail"
    """For a line that is not valid UTF-8: fail, drop it, or replace its invalid bytes with U+FFFD."""


class Corpora(TextFolder):
    """Text of the training domains."""

    unseen: File | None = None
    """Folder of text in domains that no model is trained on; none by default."""


class TrainedOrGiven(System):
    """A system to train, or an existing checkpoint."""

    refused: ClassVar[Collection[str]] = ("uses_teacher", "per_domain")

    checkpoint: File | None = None
    """Trained model to use without further training."""

    @model_validator(mode="after")
    def _check_checkpoint(self) -> TrainedOrGiven:
        if self.checkpoint is not None and (self.start or self.seeds or self.tune):
            raise ValueError("checkpoint: is used without training; remove from, seeds and tune")
        return self


class LanguageModelBase(Base):
    """A causal language model of Hugging Face: a folder with safetensors, or a GGUF file."""


class LanguageModel(TrainedOrGiven):
    """A language model. Keys that are not listed are options of fairseq-train."""

    @property
    def tokens_per_sample(self) -> int:
        """Number of tokens in a block of text."""
        return int(option_of(self.options, "tokens-per-sample") or _DEFAULT_BLOCK)

    def is_a(self, model: str) -> bool:
        """Return whether the architecture is this registered model or one of its presets (by the start of the name)."""
        return str(option_of(self.options, "arch")).startswith(model)

    @model_validator(mode="after")
    def _check_length(self) -> LanguageModel:
        check_counts(self.options, ("tokens-per-sample",), self.place.where)
        return self


ModelT_co = TypeVar("ModelT_co", bound=LanguageModel, covariant=True)


class LanguageModelExperiment(ExperimentOnBase[ModelT_co]):
    """An experiment with language models of several domains."""

    base_arch = CAUSAL_LM
    base_options = ("tokens-per-sample",)

    base: LanguageModelBase | None = None
    """Pretrained base model with its own tokenizer, instead of training one."""
    corpora: Corpora
    split: LanguageModelSplit = LanguageModelSplit()
    """Held-out lines."""
    subwords: SentencePiece = SentencePiece()

    @model_validator(mode="after")
    def _check_subwords(self) -> LanguageModelExperiment[ModelT_co]:
        if self.base and self.subwords.model_fields_set:
            raise ValueError("subwords: the base has its own subwords; remove this section")
        return self

    @field_validator("split")
    @classmethod
    def _check_test_set(cls, split: LanguageModelSplit) -> LanguageModelSplit:
        if not split.test:
            raise ValueError("test: a test set is needed; set 1 or more")
        return split


def checkpoint_of(experiment: Experiment[TrainedOrGiven], run: Run) -> Path:
    """Return the checkpoint of a run: the one given in the experiment file, or else the best of its training."""
    if isinstance(experiment, LanguageModelExperiment) and experiment.is_base(run.system.name):
        return experiment.work_dir / BASE / BASE_CHECKPOINT
    return experiment.systems[run.system.name].checkpoint or best_checkpoint(experiment, run.name)


def is_given(experiment: Experiment[TrainedOrGiven], name: str) -> bool:
    """Return whether a system is an existing checkpoint, and check that it exists."""
    checkpoint = experiment.systems[name].checkpoint
    if checkpoint is not None and not checkpoint.is_file():
        raise InputError(
            f"{experiment.path}: train: systems: {name}: checkpoint: {checkpoint} does not exist; "
            "give the checkpoint of a model, or import a RoBERTa with fairseq-ext import"
        )
    return checkpoint is not None


ExperimentT = TypeVar("ExperimentT", bound=LanguageModelExperiment)


class LanguageModelRecipe(Recipe[ExperimentT]):
    """A kind of experiment with language models of several domains."""

    def prepare(self, engine: Engine = THIS_MACHINE) -> list[Step]:
        """Return the data preparation steps in order. All write below ``work_dir``."""
        config = self.experiment
        work_dir, corpora = config.work_dir, config.corpora
        files = text_files(corpora.folder)
        unseen = text_files(corpora.unseen) if corpora.unseen is not None else {}
        for name in files.keys() & unseen.keys():
            raise InputError(
                f"{unseen[name]}: {name!r} is also a training domain ({files[name]}); rename or remove one"
            )
        sets = [(name, role) for name in sorted([*files, *unseen]) for role in SPLITS]
        return [
            *([self._base_step()] if config.base else []),
            import_text_step(work_dir, {**files, **unseen}, corpora.on_bad_utf8, engine),
            split_step(work_dir, [*files, *unseen], config.split, config.seed),
            self._subword_step(list(files)),
            encode_step(work_dir, sets, engine),
            self._binarise_step(DATA_DIR, list(files), engine),
            *([self._binarise_step(UNSEEN_DATA_DIR, list(unseen), engine)] if unseen else []),
        ]

    def train(self, name: str) -> list[Step]:
        """Return the steps that train a system, or import the base; none for a given checkpoint."""
        if self.experiment.is_base(name):
            return [self._base_step()]
        return [] if is_given(self.experiment, name) else super().train(name)

    def train_run(self, run: Run, options: Mapping[str, Any] = {}, files: Mapping[str, Path] = {}) -> Step:
        """Return the step that trains a run.

        ``options`` are fairseq-train options in addition to the system's. ``files`` are options with output files of
        other steps as values.
        """
        config, start = self.experiment, self.experiment.start_of(run)
        options = {**run.system.options, **options}
        if start is not None:
            files = {"finetune-from-model": checkpoint_of(config, start), **files}
        arguments = ["--task", LANGUAGE_MODELING_TASK, "--seed", str(run.seed), "--no-epoch-checkpoints"]
        if config.base is not None and option_of(options, "criterion") is None:
            arguments += ["--criterion", CHUNKED_CRITERION]
        nodes = {"nodes": _NODES_VERSION} if "tree" in files else {}
        inputs = [run.system.data or config.work_dir / DATA_DIR, *files.values()]
        arguments += [*as_arguments(files), *as_arguments(options)]
        recorded = {"system": options, "extra": [], "seed": run.seed, **nodes}
        return train_step(config, run, inputs, arguments, recorded)

    def _base_step(self) -> Step:
        """Return the step that writes the pretrained base: its weights, tokenizer and a checkpoint that names them."""
        work_dir, base = self.experiment.work_dir, self.experiment.base
        output, length = work_dir / BASE, self.experiment.systems[BASE].tokens_per_sample
        assert base is not None

        def build(folder: Path) -> None:
            # Loads fairseq.
            from fairseq_ext.convert.causal_lm import import_causal_lm

            with base.opened(work_dir / "downloads") as (source, origin):
                import_causal_lm(source, folder, output, length)
                origin.write(folder)

        files = [] if base.path is None else [base.path]
        recorded = {"version": _BASE_VERSION, "tokens": length, **base.recorded}
        return Step(output, files, recorded, build, results=[BASE_CHECKPOINT])

    def _subword_step(self, names: Sequence[str]) -> Step:
        config, work_dir = self.experiment, self.experiment.work_dir
        if config.base is not None:
            files = [work_dir / BASE / name for name in TOKENIZER_FILES]
            return Step(work_dir / "subwords", files, {"kind": CAUSAL_LM}, partial(copy_files, files))
        return sentencepiece_step(work_dir, names, config.subwords, config.seed)

    def _binarise_step(self, output: str, names: Sequence[str], engine: Engine) -> Step:
        encoded, subwords = self.experiment.work_dir / "encoded", self.experiment.work_dir / "subwords"
        files = [(f"{name}/{role}.{_ENDING}", f"{name}/{role}") for name in names for role in SPLITS]

        def build(folder: Path) -> str:
            unknown = binarise_files(folder, encoded, [subwords / DICT_FILE], files, engine)
            copy_files([subwords / name for name in subword_files(subwords)], folder)
            write_lines(folder / DOMAINS_FILE, names)
            return unknown

        inputs = [*(encoded / name for name in names), subwords]
        return Step(self.experiment.work_dir / output, inputs, {"domains": list(names)}, build, resumable=True)


# Steps from text by domain to subwords


def import_text(files: Mapping[str, Path], on_bad_utf8: str, index: int, output: Path) -> Counter[str]:
    """Write the text of the domain with this index, canonical and without blank lines. Return counts of lines."""
    name, path = sorted(files.items())[index]
    tally: Counter[str] = Counter()

    def lines() -> Iterator[str]:
        for line in stream_canonical_lines(path, on_bad_utf8, tally):
            kind = "bad_utf8_dropped" if line is None else "blank" if BLANK.fullmatch(line) else "lines"
            tally[kind] += 1
            if line is not None and kind == "lines":
                yield line

    write_lines(output / f"{name}.{_ENDING}", lines())
    if not tally["lines"]:
        raise InputError(f"{path}: has no text; write the text of the domain into it, line by line")
    return tally


def text_files(folder: Path) -> dict[str, Path]:
    """Return the ``DOMAIN.txt`` files of a folder, which may be compressed, by domain."""
    if not folder.is_dir():
        raise InputError(f"{folder}: not found; give a folder with a file DOMAIN.{_ENDING} for each domain")
    suffixes = domain_files(folder, _ENDING)
    if not suffixes:
        raise InputError(f"{folder}: contains no files DOMAIN.{_ENDING}; add one for each domain")
    names = check_domain_names(sorted(suffixes), str(folder))
    return {name: folder / f"{name}.{_ENDING}{suffixes[name]}" for name in names}


def copy_files(files: Iterable[Path], folder: Path) -> None:
    """Copy files to a folder."""
    for file in files:
        shutil.copyfile(file, folder / file.name)


def import_text_step(work_dir: Path, files: Mapping[str, Path], on_bad_utf8: str, engine: Engine) -> Step:
    """Return the step ``corpora``: the canonical text of each domain; see :func:`import_text`."""
    task = partial(import_text, {name: path.resolve() for name, path in files.items()}, on_bad_utf8)

    def build(folder: Path) -> str:
        tally = sum(fill_by_jobs(folder, task, len(files), engine, "import"), Counter[str]())
        counts = ", ".join(f"{count:,} {key.replace('_', ' ')}" for key, count in tally.items() if count)
        return f"{counts or 'text'}, of {len(files)} domains"

    options = {"files": sorted(path.name for path in files.values()), "on_bad_utf8": on_bad_utf8}
    return Step(work_dir / "corpora", [path for _, path in sorted(files.items())], options, build, resumable=True)


def split_step(
    work_dir: Path,
    names: Iterable[str],
    options: LanguageModelSplit,
    seed: int,
    held_out: Sequence[Path] = (),
    elsewhere: Callable[[], set[str]] = set,
) -> Step:
    """Return the step ``splits``: training, validation and test sets of each domain.

    ``elsewhere`` reads the lines of other held-out sets from the folders ``held_out``. They are left out here.
    """
    texts = {name: work_dir / "corpora" / f"{name}.{_ENDING}" for name in sorted(names)}
    recorded = {**options.model_dump(), "seed": seed, "domains": list(texts)}

    def build(folder: Path) -> str:
        return write_text_splits(folder, texts, options=options, seed=seed, elsewhere=elsewhere())

    return Step(work_dir / "splits", [*texts.values(), *held_out], recorded, build)


def sentencepiece_step(work_dir: Path, names: Iterable[str], options: SentencePiece, seed: int) -> Step:
    """Return the step ``subwords``: a SentencePiece model, trained on the training sets of domains."""
    texts = [text_path(work_dir / "splits", name, "train") for name in names]
    counted = options.model_dump(include={"vocab_size", "character_coverage", "max_sentences"})
    recorded = {**counted, "seed": seed, "with": versions("sentencepiece")}
    train = partial(train_sentencepiece, files=[[path] for path in texts], tags=[], options=options, seed=seed)
    return Step(work_dir / "subwords", texts, recorded, train)


def encode_step(work_dir: Path, files: Sequence[tuple[str, str]], engine: Engine) -> Step:
    """Return the step ``encoded``: texts in subwords. ``files`` are pairs of a domain and a set."""
    splits, subwords = work_dir / "splits", work_dir / "subwords"
    options = {"with": versions("sentencepiece", "tokenizers")}
    encode = partial(encode_texts, texts=splits, subwords=subwords, files=files, engine=engine)
    return Step(work_dir / "encoded", [splits, subwords], options, encode, resumable=True)
