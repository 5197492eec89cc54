"""Shared parts of recipes with language models of several domains: configuration, preparation and training.

The preparation steps are ``corpora``, ``splits``, ``subwords``, ``encoded`` and ``data-bin``. ``data-bin`` has the
training domains and ``data-bin-unseen`` the unseen domains, with the same dictionary. Both contain ``domains.txt``,
``dict.txt``, the subword model, and ``DOMAIN/{train,valid,test}.{bin,idx}`` with ``</s>`` after every line.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from pydantic import field_validator, model_validator

from fairseq_ext.base.domain_names import DOMAINS_FILE
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import as_arguments, check_counts, option_of
from fairseq_ext.base.jobs import THIS_MACHINE, Engine
from fairseq_ext.base.sections import File
from fairseq_ext.base.steps import Step
from fairseq_ext.data.binarise import binarise_files
from fairseq_ext.experiments.base import BASE, Base, add_base
from fairseq_ext.experiments.config import Experiment, Run, System
from fairseq_ext.experiments.text_steps import (
    TextFolder,
    encode_step,
    import_text_step,
    sentencepiece_step,
    split_step,
    text_files,
)
from fairseq_ext.experiments.train import best_checkpoint, train_step
from fairseq_ext.experiments.tune import steps_of_runs
from fairseq_ext.modules.language_model_options import CAUSAL_LM, CHUNKED_CRITERION, LANGUAGE_MODELING_TASK
from fairseq_ext.text.encoders import TOKENIZER_FILES, subword_files
from fairseq_ext.text.line_split import LanguageModelSplit, text_path
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import DICT_FILE, SentencePiece
from fairseq_ext.text.text_files import write_lines

DATA_DIR, UNSEEN_DATA_DIR = "data-bin", "data-bin-unseen"
BASE_CHECKPOINT = "model.pt"
_ENDING = "txt"
_DEFAULT_BLOCK = 1024  # as in fairseq
_NODES_VERSION = 2  # in version 1, Adam counted the steps of all nodes for each node
_NONE: Mapping[str, Any] = MappingProxyType({})


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


class LanguageModelExperiment(Experiment[ModelT_co]):
    """An experiment with language models of several domains."""

    corpora: Corpora
    split: LanguageModelSplit = LanguageModelSplit()
    """Held-out lines."""
    base: LanguageModelBase | None = None
    """Pretrained base model with its own tokenizer, instead of training one."""
    subwords: SentencePiece = SentencePiece()

    @model_validator(mode="before")
    @classmethod
    def _add_base(cls, content: Any) -> Any:
        """Add the base as a system."""
        return add_base(cls, content, CAUSAL_LM, ["tokens-per-sample"])

    @model_validator(mode="after")
    def _check_base(self) -> LanguageModelExperiment[ModelT_co]:
        if self.base and self.subwords.model_fields_set:
            raise ValueError("subwords: the base has its own subwords; remove this section")
        return self

    def is_base(self, name: str) -> bool:
        """Return whether a system is the pretrained base."""
        return self.base is not None and name == BASE

    @field_validator("split")
    @classmethod
    def _check_test_set(cls, split: LanguageModelSplit) -> LanguageModelSplit:
        if not split.test:
            raise ValueError("test: a test set is needed; set 1 or more")
        return split


Config = LanguageModelExperiment[LanguageModel]


def preparation_steps(config: Config, engine: Engine = THIS_MACHINE) -> list[Step]:
    """Return the data preparation steps in order. All write below ``config.work_dir``."""
    files = text_files(config.corpora.folder)
    unseen = text_files(config.corpora.unseen) if config.corpora.unseen is not None else {}
    for name in files.keys() & unseen.keys():
        raise InputError(f"{unseen[name]}: {name!r} is also a training domain ({files[name]}); rename or remove one")
    sets = [(name, role) for name in sorted([*files, *unseen]) for role in SPLITS]
    steps = [
        *([base_step(config)] if config.base else []),
        import_text_step(config.work_dir, {**files, **unseen}, config.corpora.on_bad_utf8, engine),
        split_step(config.work_dir, [*files, *unseen], config.split, config.seed),
        _subword_step(config, list(files)),
        encode_step(config.work_dir, sets, engine),
        _binarise_step(config, DATA_DIR, list(files), engine),
    ]
    return [*steps, _binarise_step(config, UNSEEN_DATA_DIR, list(unseen), engine)] if unseen else steps


def base_step(config: Config) -> Step:
    """Return the step that writes the pretrained base: its weights, tokenizer and a checkpoint that names them."""
    base, output, length = config.base, config.work_dir / BASE, config.systems[BASE].tokens_per_sample
    assert base is not None

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.convert.causal_lm import import_causal_lm

        with base.opened(config.work_dir / "downloads") as (source, origin):
            import_causal_lm(source, folder, output, length)
            origin.write(folder)

    files = [] if base.path is None else [base.path]
    return Step(output, files, {"version": 1, "tokens": length, **base.recorded}, build, results=[BASE_CHECKPOINT])


def _subword_step(config: Config, names: Sequence[str]) -> Step:
    output, base = config.work_dir / "subwords", config.work_dir / BASE
    if config.base is not None:

        def copy(folder: Path) -> None:
            for name in TOKENIZER_FILES:
                shutil.copyfile(base / name, folder / name)

        return Step(output, [base / name for name in TOKENIZER_FILES], {"kind": CAUSAL_LM}, copy)
    texts = [text_path(config.work_dir / "splits", name, "train") for name in names]
    return sentencepiece_step(output, texts, config.subwords, config.seed)


def _binarise_step(config: Config, output: str, names: Sequence[str], engine: Engine) -> Step:
    encoded, subwords = config.work_dir / "encoded", config.work_dir / "subwords"
    files = [(f"{name}/{role}.{_ENDING}", f"{name}/{role}") for name in names for role in SPLITS]

    def build(folder: Path) -> str:
        unknown = binarise_files(folder, encoded, [subwords / DICT_FILE], files, engine)
        for name in subword_files(subwords):
            shutil.copyfile(subwords / name, folder / name)
        write_lines(folder / DOMAINS_FILE, names)
        return unknown

    inputs = [*(encoded / name for name in names), subwords]
    return Step(config.work_dir / output, inputs, {"domains": list(names)}, build, resumable=True)


def checkpoint_of(experiment: Experiment[TrainedOrGiven], run: Run) -> Path:
    """Return the checkpoint of a run: the one given in the experiment file, or else the best of its training."""
    if isinstance(experiment, LanguageModelExperiment) and experiment.is_base(run.system.name):
        return experiment.work_dir / BASE / BASE_CHECKPOINT
    return experiment.systems[run.system.name].checkpoint or best_checkpoint(experiment, run.name)


def training_steps(experiment: Experiment[TrainedOrGiven], name: str, train: Callable[[Run], Step]) -> list[Step]:
    """Return the steps that train a system with ``train``, including trials; none if a checkpoint is given."""
    if isinstance(experiment, LanguageModelExperiment) and experiment.is_base(name):
        return [base_step(experiment)]
    checkpoint = experiment.systems[name].checkpoint
    if checkpoint is None:
        return steps_of_runs(experiment, experiment.runs[name], train)
    if not checkpoint.is_file():
        raise InputError(
            f"{experiment.path}: train: systems: {name}: checkpoint: {checkpoint} does not exist; "
            "give the checkpoint of a model, or import a RoBERTa with fairseq-ext import"
        )
    return []


def training_step(
    experiment: Config, run: Run, options: Mapping[str, Any] = _NONE, files: Mapping[str, Path] = _NONE
) -> Step:
    """Return the step that trains a run.

    ``options`` are fairseq-train options in addition to the system's. ``files`` are options with output files of other
    steps as values.
    """
    start, options = experiment.start_of(run), {**run.system.options, **options}
    if start is not None:
        files = {"finetune-from-model": checkpoint_of(experiment, start), **files}
    arguments = ["--task", LANGUAGE_MODELING_TASK, "--seed", str(run.seed), "--no-epoch-checkpoints"]
    if experiment.base is not None and option_of(options, "criterion") is None:
        arguments += ["--criterion", CHUNKED_CRITERION]
    return train_step(
        experiment,
        run,
        [run.system.data or experiment.work_dir / DATA_DIR, *files.values()],
        [*arguments, *as_arguments(files), *as_arguments(options)],
        {"system": options, "extra": [], "seed": run.seed, **({"nodes": _NODES_VERSION} if "tree" in files else {})},
    )
