"""Disjoint sets of a task, the given ones or parts of its training set, and facts about them in ``task.json``.

Texts are compared by :func:`~fairseq_ext.text.folded_text.fold`, with both texts of a pair together. Examples in the
test set are removed from the validation and training sets, and examples in the validation set from the training set.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.json_file import read_typed, write_json
from fairseq_ext.base.sections import Count, File, Number, Section, as_tuple
from fairseq_ext.text.folded_text import fold
from fairseq_ext.text.labelled_text import TABLES, LabelledExample, read_examples
from fairseq_ext.text.split import HELD_OUT, SPLITS, stable_hash
from fairseq_ext.text.text_files import stream_lines, write_lines

# Metrics by kind of task; the first is the default.
METRICS = {"classification": ("accuracy", "f1", "matthews"), "regression": ("spearman", "pearson")}
LABEL = "label"
TASK_FILE = "task.json"
# fairseq's ids of <s>, before the first text, and </s>, before the second, as in RoBERTa.
FIRST, SECOND = 0, 2


Share = Annotated[Number, Field(gt=0, lt=1)]


def _check_table(path: Path) -> Path:
    if path.suffix not in TABLES:
        raise ValueError(f"{path} is not a table; give a file with the suffix {' or '.join(TABLES)}")
    return path


Table = Annotated[File, AfterValidator(_check_table)]


class ClassificationSplit(Section):
    """Sizes of held-out sets."""

    valid: Count = 1000
    """Validation lines of each domain of the base model's text, to select its checkpoint."""
    stretch: Count = 50
    """Number of consecutive lines held out together."""
    task_valid: Share = 0.1
    """Share of the training examples for the validation set of a task that has none."""
    task_test: Share = 0.1
    """Share of the training examples for the test set of a task that has none."""
    task_train: Count | None = None
    """Maximum number of training examples of a task; of more, a sample is used. By default all are used."""

    @model_validator(mode="after")
    def _check_shares(self) -> ClassificationSplit:
        if self.task_valid + self.task_test >= 1:
            raise ValueError("task_valid and task_test leave no training examples; lower them")
        return self


class ClassificationTask(Section):
    """A task: labelled examples in tables (.tsv, .csv or .jsonl)."""

    train: Table
    """Table of the training set."""
    valid: Table | None = None
    """Table of the validation set; by default a part of the training set."""
    test: Table | None = None
    """Table of the test set; by default a part of the training set."""
    label: str = "label"
    """Column of the labels or numbers."""
    text: str = "text"
    """Column of the text."""
    text2: str | None = None
    """Column of the second text of a pair."""
    kind: Literal["classification", "regression"] = "classification"
    """``classification`` or ``regression``, which predicts numbers."""
    metrics: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = Field((), validate_default=True)
    """Metrics, the main one first; by default accuracy, or Spearman's correlation for regression."""

    @field_validator("metrics")
    @classmethod
    def _check_metrics(cls, metrics: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        known = METRICS[info.data.get("kind", "classification")]
        for metric in metrics:
            if metric not in known:
                raise ValueError(f"{metric!r} is unknown; choose one of {', '.join(known)}")
        return metrics or known[:1]

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the tables, as arguments of :func:`read_examples`."""
        texts = (self.text,) if self.text2 is None else (self.text, self.text2)
        return {"label": self.label, "texts": texts, "is_number": self.kind == "regression"}

    @property
    def tables(self) -> dict[str, Path]:
        """The given tables by set."""
        paths = {"train": self.train, "valid": self.valid, "test": self.test}
        return {role: path for role, path in paths.items() if path is not None}


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class TaskFacts:
    """Facts about a task's data for training and evaluation.

    Attributes:
        kind: ``classification`` or ``regression``.
        labels: sorted names of the classes; empty for a regression.
        num_inputs: number of texts per example, 1 or 2.
        counts: number of examples of each set.
        removed: number of examples removed from each set because their text is in the validation or test set.
    """

    kind: Literal["classification", "regression"]
    labels: list[str]
    num_inputs: Annotated[int, Field(ge=1, le=2)]
    counts: dict[str, int]
    removed: dict[str, int]

    @property
    def num_classes(self) -> int:
        """Number of outputs of the head: one per class, or 1 for a regression."""
        return len(self.labels) or 1

    @property
    def inputs(self) -> list[str]:
        """fairseq's names for the texts of an example."""
        return [f"input{number}" for number in range(self.num_inputs)]


def write_task_facts(folder: Path, facts: TaskFacts) -> None:
    """Write the facts to a task's folder."""
    write_json(folder / TASK_FILE, dataclasses.asdict(facts))


def read_task_facts(folder: Path) -> TaskFacts:
    """Read the facts from a task's folder."""
    return read_typed(folder / TASK_FILE, TaskFacts, f"delete {folder} and prepare again")


def set_path(folder: Path, part: str, role: str) -> Path:
    """Return the path of the texts (``input0``, ``input1``) or labels (``label``) of a set, one example per line."""
    return folder / part / f"{role}.txt"


def write_task_splits(
    folder: Path, name: str, task: ClassificationTask, *, options: ClassificationSplit, seed: int
) -> None:
    """Write ``{input0,input1,label}/{train,valid,test}.txt`` and ``task.json``, and print a summary to stderr.

    If the task lacks a held-out set, its examples are determined by the seed, the task's name and their texts, with the
    same share of each class. All examples are in memory.
    """
    sets = {role: read_examples(path, **task.columns) for role, path in task.tables.items()}
    missing = {"test": options.task_test, "valid": options.task_valid}
    shares = {role: share for role, share in missing.items() if role not in sets}
    examples, removed = _separate(_with_held_out(sets, _draw(name, task, sets["train"], shares, seed)))
    examples["train"] = _sample(name, examples["train"], options.task_train, seed)
    for role in SPLITS:
        if not examples[role]:
            raise InputError(
                f"{name}: the {role} set has no examples left; add examples, or change split or the tables"
            )
    facts = TaskFacts(
        kind=task.kind,
        labels=_labels(name, examples) if task.kind == "classification" else [],
        num_inputs=len(task.columns["texts"]),
        counts={role: len(examples[role]) for role in SPLITS},
        removed=removed,
    )
    for role in SPLITS:
        write_lines(set_path(folder, LABEL, role), (example.label for example in examples[role]))
        for number, part in enumerate(facts.inputs):
            write_lines(set_path(folder, part, role), (example.texts[number] for example in examples[role]))
    write_task_facts(folder, facts)
    sizes = ", ".join(f"{facts.counts[role]} {role}" for role in SPLITS)
    taken = " and ".join(f"{count} of {role}" for role, count in removed.items())
    classes = f"{facts.num_classes} classes" if facts.labels else "numbers"
    print(f"{name}: {sizes}; {classes}; removed because held out: {taken}", file=sys.stderr)


def held_out_texts(folder: Path) -> Iterator[str]:
    """Yield the folded texts of a task's validation and test sets."""
    for part in read_task_facts(folder).inputs:
        for role in HELD_OUT:
            yield from map(fold, stream_lines(set_path(folder, part, role)))


def _draw(
    name: str, task: ClassificationTask, examples: Sequence[LabelledExample], shares: Mapping[str, float], seed: int
) -> dict[str, str]:
    """Return the sets of held-out texts: the same shares of each class, and none of a class with few texts."""
    classes: dict[str, str] = {}
    for example in examples:
        classes.setdefault(_key(example), example.label if task.kind == "classification" else "")
    texts: dict[str, list[str]] = defaultdict(list)
    for text in sorted(classes, key=lambda text: (stable_hash(seed, name, text), text)):
        texts[classes[text]].append(text)
    drawn: dict[str, str] = {}
    for ordered in texts.values():
        rest = iter(ordered)
        for role, share in shares.items():
            drawn |= dict.fromkeys(islice(rest, int(share * len(ordered))), role)
    return drawn


def _with_held_out(
    sets: Mapping[str, Sequence[LabelledExample]], drawn: Mapping[str, str]
) -> dict[str, list[LabelledExample]]:
    """Return all three sets: the given ones, and those drawn from the training set."""
    complete = {role: list(sets.get(role, ())) if role != "train" else [] for role in SPLITS}
    for example in sets["train"]:
        complete[drawn.get(_key(example), "train")].append(example)
    return complete


def _separate(sets: Mapping[str, Sequence[LabelledExample]]) -> tuple[dict[str, list[LabelledExample]], dict[str, int]]:
    """Remove from each set the examples of the sets before it (test, valid, train), and count them by set."""
    known: set[str] = set()
    separated = {}
    for role in ("test", "valid", "train"):
        separated[role] = [example for example in sets[role] if _key(example) not in known]
        known.update(map(_key, separated[role]))
    return separated, {role: len(sets[role]) - len(separated[role]) for role in ("train", "valid")}


def _sample(name: str, examples: list[LabelledExample], most: int | None, seed: int) -> list[LabelledExample]:
    """Return at most ``most`` examples in order, sampled by hashes of their texts, independently of the order."""
    if most is None or len(examples) <= most:
        return examples
    ranked = sorted(range(len(examples)), key=lambda row: (stable_hash(seed, name, _key(examples[row])), row))
    print(f"{name}: trains on {most} of {len(examples)} examples (split.task_train)", file=sys.stderr)
    return [examples[row] for row in sorted(ranked[:most])]


def _labels(name: str, sets: Mapping[str, Sequence[LabelledExample]]) -> list[str]:
    """Return the sorted classes of the training set, which must include those of the held-out sets."""
    labels = {role: {example.label for example in examples} for role, examples in sets.items()}
    for role in HELD_OUT:
        if unknown := sorted(labels[role] - labels["train"]):
            raise InputError(
                f"{name}: the {role} set has the label {unknown[0]!r}, but the training set only has "
                f"{', '.join(sorted(labels['train']))}; add training examples with this label, or remove it"
            )
    if len(labels["train"]) < 2:
        raise InputError(f"{name}: all training examples have the label {min(labels['train'])!r}; add other labels")
    return sorted(labels["train"])


def _key(example: LabelledExample) -> str:
    return "\0".join(map(fold, example.texts))
