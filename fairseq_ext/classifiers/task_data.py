"""What is known of a task when its data is made: ``task.json``, beside its sets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json, write_json

TASK_FILE = "task.json"
# fairseq's numbers of <s>, before the first text, and </s>, before the second: RoBERTa's own form.
FIRST, SECOND = 0, 2


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class TaskFacts:
    """What training and measuring must know of a task's data.

    Attributes:
        kind: ``classification`` or ``regression``.
        labels: the names of the classes, sorted; none for a regression.
        num_inputs: texts of an example, 1 or 2.
        counts: examples by set.
        removed: by set, the examples taken out because their text is in the validation or test set.
    """

    kind: Literal["classification", "regression"]
    labels: list[str]
    num_inputs: Annotated[int, Field(ge=1, le=2)]
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
    write_json(folder / TASK_FILE, dataclasses.asdict(facts))


def read_task_facts(folder: Path) -> TaskFacts:
    """Read what :func:`write_task_facts` wrote."""
    path = folder / TASK_FILE
    remedy = f"delete {folder} and prepare again"
    try:
        return TaskFacts(**read_json(path, remedy))
    except (TypeError, ValidationError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"{path}: is damaged ({said}); {remedy}") from None
