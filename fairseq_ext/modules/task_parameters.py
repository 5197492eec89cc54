"""Parameters that a task adds inside an encoder, and the switch that selects the task for the encoder's layers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass
from torch import Tensor, nn

from fairseq_ext.base.domain_names import is_domain_name
from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.post_layer_adapter import ThreadValue
from fairseq_ext.modules.text_entry import read_text, text_entry

# Keys are fairseq's names; swish is AdapterHub's default.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_accurate": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "swish": F.silu,
    "tanh": torch.tanh,
}


class HoulsbyAdapter(nn.Module):
    """A bottleneck with a skip connection inside: ``x + up(act(down(x)))`` (Houlsby et al. 2019, §2.1, Fig. 2).

    It has 2·b·H + H + b parameters. Both matrices are initialised near zero, so the adapter starts near the identity:
    from a normal distribution truncated at two standard deviations (§3.6), where ``init_scale`` is the standard
    deviation. With ``init_scale`` 0 the adapter is exactly the identity, and only the bias of ``up`` gets a gradient.

    The published code approximates GELU by tanh (``gelu_accurate`` here); the default is the exact GELU.

    Shape:
        x, result: …×H
    """

    def __init__(self, embed_dim: int, bottleneck_dim: int, init_scale: float = 1e-2, activation_fn: str = "gelu"):
        super().__init__()
        self.down = nn.Linear(embed_dim, bottleneck_dim)
        self.up = nn.Linear(bottleneck_dim, embed_dim)
        self.activation_fn = ACTIVATIONS[activation_fn]
        for projection in (self.down, self.up):
            nn.init.trunc_normal_(projection.weight, a=-2, b=2)
            projection.weight.data *= init_scale
            nn.init.zeros_(projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.up(self.activation_fn(self.down(x)))


# State-dict prefixes of the parts of tasks; the task's name follows.
TASKS, HEADS = "tasks", "classification_heads"


@pydantic_dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class TaskDescription:
    """Properties of a task that its tensors do not show.

    Attributes:
        labels: class names, in the order of the head's outputs; empty for regression.
        tuning: the part of the model that was trained, see :data:`~fairseq_ext.modules.tunings.TUNINGS`.
        token_types: whether the second text of a pair has BERT's token type 1.
        linear_head: whether the head has no hidden layer.
    """

    labels: list[str]
    tuning: Literal["adapters", "norms", "top", "full"]
    activation_fn: Literal["gelu", "gelu_accurate", "relu", "swish", "tanh"]
    token_types: bool = False
    linear_head: bool = False

    @property
    def has_adapters(self) -> bool:
        return self.tuning == "adapters"

    @property
    def has_norms(self) -> bool:
        return self.tuning in ("adapters", "norms")

    def to_entry(self) -> Tensor:
        """Encode the description as a state-dict entry, in JSON."""
        # Omit false values.
        return text_entry(json.dumps({field: value for field, value in asdict(self).items() if value is not False}))

    @classmethod
    def from_entry(cls, entry: Tensor | None, where: str) -> TaskDescription:
        """Decode an entry of :meth:`to_entry`; ``where`` is used in error messages."""
        try:
            return cls(**json.loads(read_text(entry)))  # type: ignore[arg-type]
        except (AttributeError, TypeError, ValueError):
            message = f"{where}: has no valid description; the file is damaged or was written by another program"
            raise InputError(message) from None


class TaskParameters(nn.Module):
    """Parameters that a task adds inside the encoder; its head is stored with fairseq's other heads.

    L layers have 2·L adapters: after attention, then after feed-forward, layer by layer. Norms are in the order of
    :func:`switch_norms`.
    """

    description: Tensor

    def __init__(
        self,
        description: TaskDescription,
        embed_dim: int,
        *,
        num_layers: int,
        num_norms: int,
        bottleneck_dim: int,
        init_scale: float = 1e-2,
    ):
        super().__init__()
        size = (embed_dim, bottleneck_dim, init_scale, description.activation_fn)
        num_adapters = 2 * num_layers if description.has_adapters else 0
        self.adapters = nn.ModuleList(HoulsbyAdapter(*size) for _ in range(num_adapters))
        self.norms = nn.ModuleList(nn.LayerNorm(embed_dim) for _ in range(num_norms if description.has_norms else 0))
        self.has_token_types = description.token_types
        self.register_buffer("description", description.to_entry())

    @property
    def labels(self) -> list[str]:
        """Class names, in the order of the head's outputs; empty for regression."""
        return TaskDescription.from_entry(self.description, "the model's task").labels


class TaskSwitch(ThreadValue[TaskParameters]):
    """Selection of the task for all layers of an encoder, None for the base alone.

    Attributes:
        waiting: adapters that the current layer has not reached yet.
    """

    waiting: Iterator[nn.Module] = iter(())

    def __reduce__(self) -> tuple:
        # A copy of an encoder starts with no task selected.
        return TaskSwitch, ()


class SwitchedLayerNorm(nn.LayerNorm):
    """A layer norm with the gain and offset of the selected task or the base, and the base's epsilon."""

    def __init__(self, embed_dim: int, switch: TaskSwitch, position: int):
        super().__init__(embed_dim)
        self.switch, self.position = switch, position

    def forward(self, x: Tensor) -> Tensor:
        task = self.switch.value
        norm: Any = self if task is None or not len(task.norms) else task.norms[self.position]
        return F.layer_norm(x, self.normalized_shape, norm.weight, norm.bias, self.eps)


def switch_norms(encoder: nn.Module, switch: TaskSwitch) -> list[str]:
    """Replace an encoder's layer norms by switched ones with the same state-dict keys; return their names in order."""
    # Match by class name: with apex installed, fairseq's norms are not nn.LayerNorm.
    norms = {name: module for name, module in encoder.named_modules() if type(module).__name__.endswith("LayerNorm")}
    for position, (name, norm) in enumerate(norms.items()):
        encoder.set_submodule(name, SwitchedLayerNorm(len(norm.weight), switch, position))  # type: ignore[arg-type]
    return list(norms)


def check_task_name(name: str) -> None:
    """Check that a task's name can be part of state-dict keys and file names."""
    if not is_domain_name(name) or hasattr(nn.ModuleDict(), name):
        raise InputError(
            f"--classification-head-name: {name!r} is not allowed as a task name; use letters, digits, '-' and '_', "
            "but no method name of torch modules, such as 'keys' or 'train'"
        )


def task_names(state: Iterable[str]) -> list[str]:
    """Return the sorted names of the tasks in a model's state dict."""
    return sorted({key.split(".")[1] for key in state if key.startswith(f"{TASKS}.")})


def is_of_task(key: str, name: str) -> bool:
    """Return whether a state-dict key belongs to a task: to its head or its parameters inside the encoder."""
    return key.startswith((f"{TASKS}.{name}.", f"{HEADS}.{name}."))


# Properties that must agree between a task in a checkpoint and the task to train, with their options.
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
    """A task in a state dict; ``bottleneck_dim`` is 0 without adapters, ``inner_dim`` with a linear head."""

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
        """Check that the model's task of this name is the same, so that its training can continue."""
        fields, own_fields = ({**vars(task), **asdict(task.description)} for task in (self, own))
        for field, option in _SAME.items():
            saved, wanted = fields[field], own_fields[field]
            if saved != wanted:
                raise InputError(
                    f"the checkpoint's task {self.name!r} has {option} {_shown(saved)}, not {_shown(wanted)}; use the "
                    "same value to continue its training, or another --classification-head-name for a new task"
                )


def _rows(state: Mapping[str, Tensor], key: str, name: str) -> int:
    value = state.get(key)
    if value is None or value.dim() != 2:
        raise InputError(f"the checkpoint's task {name!r} lacks the matrix {key}; the file is damaged")
    return len(value)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
