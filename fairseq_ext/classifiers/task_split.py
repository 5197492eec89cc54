"""The sets of a task: those it comes with, or parts of its training set, such that none gives another away.

Texts are compared by :func:`~fairseq_ext.corpora.folded_text.fold`; of pairs, both sides together. What is in the
test set is taken out of the validation and training set, what is in the validation set out of the training set.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from fairseq_ext.classifiers.task_data import TaskFacts, read_task_facts, write_task_facts
from fairseq_ext.corpora.folded_text import fold
from fairseq_ext.corpora.labelled_text import TABLES, Example, read_examples
from fairseq_ext.corpora.split import HELD_OUT, SPLITS, stable_hash
from fairseq_ext.corpora.text_files import stream_lines, write_lines
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import Count, File, Number, Section, as_tuple

# What a task can be measured by, by its kind; the first is the one it is measured by if the file does not say.
METRICS = {"classification": ("accuracy", "f1", "matthews"), "regression": ("spearman", "pearson")}
LABEL = "label"


Share = Annotated[Number, Field(gt=0, lt=1)]


def _check_table(path: Path) -> Path:
    if path.suffix not in TABLES:
        raise ValueError(f"{path} is no table; give {', '.join(TABLES)}")
    return path


Table = Annotated[File, AfterValidator(_check_table)]


class ClassificationSplit(Section):
    """Sizes of held-out sets."""

    valid: Count = 1000
    """Lines of each domain of the base model's text, to choose its checkpoint by."""
    stretch: Count = 50
    """Consecutive lines that are held out together."""
    task_valid: Share = 0.1
    """Share of the training examples for the validation set of a task that has none."""
    task_test: Share = 0.1
    """Share of the training examples for the test set of a task that has none."""
    task_train: Count | None = None
    """The most training examples of a task: of more, this many are drawn. By default all are used."""

    @model_validator(mode="after")
    def _check_shares(self) -> ClassificationSplit:
        if self.task_valid + self.task_test >= 1:
            raise ValueError("task_valid and task_test leave nothing to train on; lower them")
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
    """Regression predicts numbers."""
    metrics: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = Field((), validate_default=True)
    """What it is measured by, the main metric first; by default accuracy, or Spearman's correlation of numbers."""

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
        """Where its tables have what, as :func:`read_examples` takes it."""
        texts = (self.text,) if self.text2 is None else (self.text, self.text2)
        return {"label": self.label, "texts": texts, "is_number": self.kind == "regression"}

    @property
    def tables(self) -> dict[str, Path]:
        """Its tables by set."""
        paths = {"train": self.train, "valid": self.valid, "test": self.test}
        return {role: path for role, path in paths.items() if path is not None}


def set_path(folder: Path, part: str, role: str) -> Path:
    """Where the texts (``input0``, ``input1``) or labels (``label``) of a task's set lie, an example a line."""
    return folder / part / f"{role}.txt"


def write_task_splits(
    folder: Path, name: str, task: ClassificationTask, *, options: ClassificationSplit, seed: int
) -> None:
    """Write ``{input0,input1,label}/{train,valid,test}.txt`` and ``task.json``, and say on stderr what they hold.

    Which examples are held out, if the task has no such set, follows from the seed, its name and their texts. Every
    class gives the same share. All examples are in memory.
    """
    sets = {role: read_examples(path, **task.columns) for role, path in task.tables.items()}
    missing = {"test": options.task_test, "valid": options.task_valid}
    shares = {role: share for role, share in missing.items() if role not in sets}
    examples, removed = _separate(_with_held_out(sets, _draw(name, task, sets["train"], shares, seed)))
    examples["train"] = _sample(name, examples["train"], options.task_train, seed)
    for role in SPLITS:
        if not examples[role]:
            raise InputError(f"{name}: nothing is left for {role}; add examples, or change split or the tables")
    facts = TaskFacts(
        kind=task.kind,
        labels=_labels(name, examples) if task.kind == "classification" else [],
        num_inputs=len(task.columns["texts"]),
        counts={role: len(examples[role]) for role in SPLITS},
        removed=removed,
    )
    for role in SPLITS:
        _write_set(folder, role, examples[role], facts.inputs)
    write_task_facts(folder, facts)
    sizes = ", ".join(f"{facts.counts[role]} {role}" for role in SPLITS)
    taken = " and ".join(f"{count} of {role}" for role, count in removed.items())
    classes = f"{facts.num_classes} classes" if facts.labels else "numbers"
    print(f"{name}: {sizes}; {classes}; held out, so taken out: {taken}", file=sys.stderr)


def held_out_texts(folder: Path) -> Iterator[str]:
    """Yield every text of a task's validation and test set, folded."""
    for part in read_task_facts(folder).inputs:
        for role in HELD_OUT:
            yield from map(fold, stream_lines(set_path(folder, part, role)))


def _draw(
    name: str, task: ClassificationTask, examples: Sequence[Example], shares: Mapping[str, float], seed: int
) -> dict[str, str]:
    """By text, the set of what is held out: of every class the same shares, of one with few texts none."""
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


def _with_held_out(sets: Mapping[str, Sequence[Example]], drawn: Mapping[str, str]) -> dict[str, list[Example]]:
    """All three sets: those that are given, and what is drawn from the training set."""
    complete = {role: list(sets.get(role, ())) if role != "train" else [] for role in SPLITS}
    for example in sets["train"]:
        complete[drawn.get(_key(example), "train")].append(example)
    return complete


def _separate(sets: Mapping[str, Sequence[Example]]) -> tuple[dict[str, list[Example]], dict[str, int]]:
    """Every set without what is in one decided before it, and how many examples of the sets are gone."""
    known: set[str] = set()
    separated = {}
    for role in ("test", "valid", "train"):
        separated[role] = [example for example in sets[role] if _key(example) not in known]
        known.update(map(_key, separated[role]))
    return separated, {role: len(sets[role]) - len(separated[role]) for role in ("train", "valid")}


def _sample(name: str, examples: list[Example], most: int | None, seed: int) -> list[Example]:
    """So many of the examples as they come, drawn by their texts: in another order the same."""
    if most is None or len(examples) <= most:
        return examples
    ranked = sorted(range(len(examples)), key=lambda row: (stable_hash(seed, name, _key(examples[row])), row))
    print(f"{name}: {most} of {len(examples)} examples are trained on (split.task_train)", file=sys.stderr)
    return [examples[row] for row in sorted(ranked[:most])]


def _labels(name: str, sets: Mapping[str, Sequence[Example]]) -> list[str]:
    """The classes, sorted: those of the training set, which must be those of the others too."""
    labels = {role: {example.label for example in examples} for role, examples in sets.items()}
    for role in HELD_OUT:
        if unknown := sorted(labels[role] - labels["train"]):
            raise InputError(
                f"{name}: {role} has the label {unknown[0]!r}, of which no training example is left; there are "
                f"{', '.join(sorted(labels['train']))}"
            )
    if len(labels["train"]) < 2:
        raise InputError(f"{name}: all training examples have the label {min(labels['train'])!r}; give two or more")
    return sorted(labels["train"])


def _write_set(folder: Path, role: str, examples: Sequence[Example], inputs: Sequence[str]) -> None:
    write_lines(set_path(folder, LABEL, role), (example.label for example in examples))
    for number, part in enumerate(inputs):
        write_lines(set_path(folder, part, role), (example.texts[number] for example in examples))


def _key(example: Example) -> str:
    return "\0".join(map(fold, example.texts))
