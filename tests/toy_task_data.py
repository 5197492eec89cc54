"""Binarised sets of toy tasks, and checkpoints that fit them, without a training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.data.indexed_dataset import make_builder

from fairseq_ext.classifiers.task_split import TaskFacts, write_task_facts
from tests import toy_tasks
from tests.toy_tasks import LABELS, WORDS

FIRST_WORD, EOS = 4, 2  # numbers in fairseq's dictionaries
COUNTS = {"train": 5, "valid": 11, "test": 13}  # no multiples of anything


def write_task(data: Path, labels: Sequence[str] = LABELS, num_inputs: int = 1, longest: int = 9) -> Path:
    """Write a task's sets, of words and labels by chance, into a directory named like it."""
    generator = torch.Generator().manual_seed(len(data.name))
    facts = TaskFacts(
        kind="classification" if labels else "regression",
        labels=list(labels),
        num_inputs=num_inputs,
        counts=COUNTS,
        removed={},
    )
    for part in facts.inputs:
        _write_dictionary(data / part, [f"w{number}" for number in range(WORDS)])
        for split, count in COUNTS.items():
            lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
            rows = [torch.randint(FIRST_WORD, FIRST_WORD + WORDS, (n,), generator=generator) for n in lengths]
            _write_set(data / part / split, [[*row.tolist(), EOS] for row in rows])
    _write_dictionary(data / "label", labels)
    for split, count in COUNTS.items():
        if labels:
            drawn = torch.randint(len(labels), (count,), generator=generator).tolist()
            _write_set(data / "label" / split, [[FIRST_WORD + label, EOS] for label in drawn])
        else:
            (data / "label" / f"{split}.label").write_text("".join(f"{n / 4}\n" for n in range(count)))
    write_task_facts(data, facts)
    return data


def write_model(path: Path, task: str, labels: Sequence[str] = LABELS, seed: int = 2, **given: Any) -> Path:
    """A checkpoint of a model that was trained for a task, with values by chance."""
    model = toy_tasks.randomise(toy_tasks.make_model(task, labels=labels, **given), task, seed)
    return write_checkpoint(path, model, task, labels, **given)


def write_checkpoint(path: Path, model: Any, task: str, labels: Sequence[str] = LABELS, **given: Any) -> Path:
    """A checkpoint of this model, as of a training for the task."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"classification_head_name": task, "num_classes": len(labels) or 1, "init_token": 0, "separator_token": 2}
    regression = {} if labels else {"regression_target": True}
    return toy_tasks.write_checkpoint(path, model, **options, **regression, **given)


def _write_dictionary(folder: Path, symbols: Sequence[str]) -> None:
    folder.mkdir(parents=True)
    (folder / "dict.txt").write_text("".join(f"{symbol} 1\n" for symbol in symbols))


def _write_set(prefix: Path, rows: Sequence[Sequence[int]]) -> None:
    builder = make_builder(f"{prefix}.bin", "mmap", vocab_size=FIRST_WORD + WORDS)
    for row in rows:
        builder.add_item(torch.IntTensor(row))
    builder.finalize(f"{prefix}.idx")
