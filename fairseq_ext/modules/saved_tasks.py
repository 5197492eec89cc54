"""Tasks in a state dict: which there are, and what they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from torch import Tensor

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.task_parameters import HEADS, TASKS, TaskDescription

# What must agree between a task in a checkpoint and the one to train, and the option that says it.
_SAME = {
    "tuning": "--tuning",
    "activation_fn": "--adapter-activation-fn",
    "bottleneck_dim": "--bottleneck-dim",
    "num_classes": "--num-classes",
    "token_types": "--token-types",
    "linear_head": "--linear-head",
    "labels": "labels",
}


@dataclass(frozen=True)
class SavedTask:
    """A task as a state dict holds it.

    Attributes:
        name: of the task.
        description: what its tensors do not say.
        bottleneck_dim: b, inner width of the adapters; 0 if there are none.
        num_classes: C, rows of the head's last matrix.
        inner_dim: rows of the head's first matrix; 0 for a linear head.
    """

    name: str
    description: TaskDescription
    bottleneck_dim: int
    num_classes: int
    inner_dim: int

    @classmethod
    def read(cls, state: Mapping[str, Tensor], name: str) -> SavedTask:
        """Read a task's sizes from its tensors."""
        task, head = f"{TASKS}.{name}", f"{HEADS}.{name}"
        description = TaskDescription.from_entry(state.get(f"{task}.description"), f"the checkpoint's task {name!r}")
        width = _rows(state, f"{task}.adapters.0.down.weight", name) if description.has_adapters else 0
        inner = 0 if description.linear_head else _rows(state, f"{head}.dense.weight", name)
        return cls(name, description, width, _rows(state, f"{head}.out_proj.weight", name), inner)

    def check_same(self, own: SavedTask) -> None:
        """Check that a model's own task of this name is the same, so that it can go on from here."""
        fields, own_fields = ({**vars(task), **asdict(task.description)} for task in (self, own))
        for field, option in _SAME.items():
            saved, wanted = fields[field], own_fields[field]
            if saved != wanted:
                raise InputError(
                    f"the checkpoint's task {self.name!r} has {option} {_shown(saved)}, not {_shown(wanted)}: give the "
                    "same to go on with it, or another --classification-head-name for a new task"
                )


def _rows(state: Mapping[str, Tensor], key: str, name: str) -> int:
    value = state.get(key)
    if value is None or value.dim() != 2:
        raise InputError(f"the checkpoint's task {name!r} lacks the matrix {key}; the file is damaged")
    return len(value)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
