"""Facts about the data of a task: the file ``task.json`` next to its sets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fairseq_ext.base.json_file import read_typed, write_json

TASK_FILE = "task.json"
# fairseq's ids of <s>, before the first text, and </s>, before the second, as in RoBERTa.
FIRST, SECOND = 0, 2


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
