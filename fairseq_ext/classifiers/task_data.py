"""What is known of a task when its data is made: ``task.json``, beside its sets."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import is_texts, read_json

TASK_FILE = "task.json"
# fairseq's numbers of <s>, before the first text, and </s>, before the second: RoBERTa's own form.
FIRST, SECOND = 0, 2


@dataclass(frozen=True)
class TaskFacts:
    """What training and measuring must know of a task's data.

    Attributes:
        kind: ``classification`` or ``regression``.
        labels: the names of the classes, sorted; none for a regression.
        num_inputs: texts of an example, 1 or 2.
        counts: examples by set.
        removed: by set, the examples taken out because their text is in the validation or test set.
    """

    kind: str
    labels: list[str]
    num_inputs: int
    counts: dict[str, int]
    removed: dict[str, int]

    @property
    def num_classes(self) -> int:
        """How many numbers a head gives: one a class, or the one of a regression."""
        return len(self.labels) or 1

    @property
    def inputs(self) -> list[str]:
        """fairseq's names of the texts of an example."""
        return [f"input{number}" for number in range(self.num_inputs)]


def write_task_facts(folder: Path, facts: TaskFacts) -> None:
    """Write them into a task's folder."""
    text = json.dumps(dataclasses.asdict(facts), indent=1, ensure_ascii=False)
    (folder / TASK_FILE).write_text(text + "\n", encoding="utf-8")


def read_task_facts(folder: Path) -> TaskFacts:
    """Read what :func:`write_task_facts` wrote."""
    path = folder / TASK_FILE
    remedy = f"delete {folder} and prepare again"
    content = read_json(path, remedy)
    try:
        facts = TaskFacts(**content)
    except TypeError as error:
        raise InputError(f"{path}: is damaged ({error}); {remedy}") from None
    if not (is_texts(facts.labels) and facts.num_inputs in (1, 2) and _are_counts(facts.counts, facts.removed)):
        raise InputError(f"{path}: is damaged (its values are of other kinds); {remedy}")
    return facts


def _are_counts(*values: Any) -> bool:
    return all(isinstance(each, dict) and all(type(count) is int for count in each.values()) for each in values)
