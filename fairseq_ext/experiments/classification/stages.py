"""Stages of the classification recipe: from text and labelled tables to classifiers and their report.

Each task has ``tasks/TASK`` (its splits as text) and ``data-bin/TASK`` (data of fairseq's ``sentence_prediction``),
both with ``task.json``. If the base is trained here, its data are in ``corpora``, ``splits``, ``subwords``, ``encoded``
and ``masked-lm``, one corpus of all domains. They exclude all lines of the tasks' validation and test sets.
``systems/RUN`` contains a training run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from fairseq_ext.base.fairseq_cli import as_arguments
from fairseq_ext.base.jobs import THIS_MACHINE, Engine
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step, versions
from fairseq_ext.classifiers.task_split import held_out_texts, write_task_splits
from fairseq_ext.classifiers.training import binarise_task, task_arguments, task_choices
from fairseq_ext.data.binarise import binarise_files
from fairseq_ext.experiments.classification.config import Classification
from fairseq_ext.experiments.classification.measure import comparison_steps, comparisons_file, measure_run
from fairseq_ext.experiments.classification.report import page
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.language_models import (
    TextFolder,
    checkpoint_of,
    copy_files,
    encode_step,
    import_text_step,
    is_given,
    sentencepiece_step,
    split_step,
    text_files,
)
from fairseq_ext.experiments.metrics.comparison import read_comparisons
from fairseq_ext.experiments.metrics.records import Records
from fairseq_ext.experiments.metrics.render import Page
from fairseq_ext.experiments.recipe import Recipe
from fairseq_ext.experiments.train import train_step
from fairseq_ext.text.encoders import subword_files
from fairseq_ext.text.line_split import LanguageModelSplit, text_path
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import DICT_FILE
from fairseq_ext.text.text_files import stream_lines, write_lines

BASE_ARGUMENTS = ("--task", "masked_language_modeling", "--criterion", "masked_lm")
MASKED_LM_DIR = "masked-lm"
_ROLES = ("train", "valid")  # splits of the base model's text, which has no test set
_PIECES = ".pieces"  # temporary folder of encoded text


class ClassificationRecipe(Recipe[Classification]):
    """Classifiers on one encoder."""

    experiment_type = Classification
    page_version = 6

    def prepare(self, engine: Engine = THIS_MACHINE) -> list[Step]:
        """Return the preparation steps, in order. All write below ``work_dir``."""
        config, corpora = self.experiment, self.experiment.corpora
        names = list(text_files(corpora.folder)) if corpora else []
        return [
            *(_task_step(config, name) for name in config.tasks),
            *(_text_steps(config, corpora, engine) if corpora else []),
            _subword_step(config, names),
            *(_masked_lm_steps(config, names, engine) if corpora else []),
            *(_binarise_step(config, name) for name in config.tasks),
        ]

    def train(self, name: str) -> list[Step]:
        """Return the steps that train a system; none for a given checkpoint."""
        return [] if is_given(self.experiment, name) else super().train(name)

    def train_run(self, run: Run) -> Step:
        """Return the step that trains one run: of a base, or for a task."""
        config, is_base, options = self.experiment, run.domain is None, run.system.options
        inputs = [run.system.data or config.work_dir / MASKED_LM_DIR if is_base else config.task_data(str(run.domain))]
        arguments = [*(BASE_ARGUMENTS if is_base else ()), "--seed", str(run.seed), "--no-epoch-checkpoints"]
        if start := config.start_of(run):
            inputs.append(checkpoint_of(config, start))
            arguments += ["--finetune-from-model", str(inputs[-1])]
        return train_step(
            config,
            run,
            inputs,
            [*arguments, *as_arguments(options)],
            {"system": options, "seed": run.seed, "task": run.domain},
            foreseen=() if is_base else as_arguments(task_choices(str(run.domain), options)),
            derived=tuple if is_base else partial(task_arguments, inputs[0], str(run.domain), options),
        )

    def measure(self) -> list[Step]:
        """Return the steps that measure the runs trained for tasks: ``predictions/RUN``."""
        return [measure_run(self.experiment, run) for run in self.experiment.task_runs]

    def measuring_stages(self) -> list[Stage]:
        """Return the stages that measure the systems and compare them."""
        return [*super().measuring_stages(), Stage("analyse", partial(comparison_steps, self.experiment))]

    def page_files(self) -> Sequence[Path]:
        """Return the file of comparisons."""
        return [comparisons_file(self.experiment)]

    def page(self, records: Records) -> Page:
        """Make the page of the tables and figures of Houlsby et al. (2019)."""
        return page(self.experiment, records, read_comparisons(comparisons_file(self.experiment)))


RECIPE = ClassificationRecipe


# Data


def _task_step(config: Classification, name: str) -> Step:
    task, split = config.tasks[name], config.split
    # Metrics do not affect the data.
    columns = {"kind": task.kind, "columns": task.columns, "tables": list(task.tables)}
    shares = {"task_valid": split.task_valid, "task_test": split.task_test}
    most = {} if split.task_train is None else {"task_train": split.task_train}
    options = {**columns, **shares, **most, "name": name, "seed": config.seed}
    build = partial(write_task_splits, name=name, task=task, options=split, seed=config.seed)
    return Step(config.raw_task(name), list(task.tables.values()), options, build)


def _text_steps(config: Classification, corpora: TextFolder, engine: Engine) -> list[Step]:
    files, tasks = text_files(corpora.folder), [config.raw_task(name) for name in config.tasks]
    split = LanguageModelSplit(valid=config.split.valid, test=0, stretch=config.split.stretch)

    def tested() -> set[str]:
        return set(chain.from_iterable(map(held_out_texts, tasks)))

    return [
        import_text_step(config.work_dir, files, corpora.on_bad_utf8, engine),
        split_step(config.work_dir, files, split, config.seed, tasks, tested),
    ]


def _subword_step(config: Classification, names: Sequence[str]) -> Step:
    output, imported = config.work_dir / "subwords", config.subwords.imported
    if imported is None:
        texts = [text_path(config.work_dir / "splits", name, "train") for name in names]
        return sentencepiece_step(output, texts, config.subwords, config.seed)
    files = [imported / name for name in subword_files(imported)]
    return Step(output, files, {"files": [file.name for file in files]}, partial(copy_files, files))


def _masked_lm_steps(config: Classification, names: Sequence[str], engine: Engine) -> list[Step]:
    encoded, subwords = config.work_dir / "encoded", config.work_dir / "subwords"

    def lines(role: str) -> Iterator[str]:
        for name in names:
            yield from stream_lines(text_path(encoded, name, role))

    def build(folder: Path) -> str:
        for role in _ROLES:
            write_lines(folder / _PIECES / f"{role}.txt", lines(role))
        dictionary, files = subwords / DICT_FILE, [(f"{role}.txt", role) for role in _ROLES]
        unknown = binarise_files(folder, folder / _PIECES, [dictionary], files, engine)
        shutil.rmtree(folder / _PIECES)
        shutil.copyfile(dictionary, folder / DICT_FILE)
        return unknown

    return [
        encode_step(config.work_dir, [(name, role) for name in names for role in _ROLES], engine),
        Step(config.work_dir / MASKED_LM_DIR, [encoded, subwords], {"domains": list(names)}, build),
    ]


def _binarise_step(config: Classification, name: str) -> Step:
    texts, subwords = config.raw_task(name), config.work_dir / "subwords"
    options = {"with": versions("sentencepiece", "tokenizers")}
    build = partial(binarise_task, texts=texts, subwords=subwords, splits=SPLITS)
    return Step(config.task_data(name), [texts, subwords], options, build)
