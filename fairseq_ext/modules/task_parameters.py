"""All that one task adds inside an encoder, and the switch by which the encoder's layers find it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from threading import local
from typing import Literal, cast

import torch
import torch.nn.functional as F
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass
from torch import Tensor, nn

from fairseq_ext.inputs.domain_names import is_domain_name
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.text_entry import read_text, text_entry

# By fairseq's names; swish is AdapterHub's default.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_accurate": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "swish": F.silu,
    "tanh": torch.tanh,
}


class HoulsbyAdapter(nn.Module):
    """A bottleneck with a skip connection inside: ``x + up(act(down(x)))`` (Houlsby et al. 2019, §2.1, Fig. 2).

    It has 2·b·H + H + b parameters. Both matrices start near zero, and with them the adapter near the identity: from a
    normal distribution cut at two standard deviations (§3.6). At a scale of 0 it is the identity exactly, and only the
    offset of ``up`` would learn.

    The published code approximates GELU by tanh, which is ``gelu_accurate`` here; the default is the exact one.
    ``init_scale`` is the standard deviation of the weights.

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


# The state-dict prefixes below which each task has its parts, by name.
TASKS, HEADS = "tasks", "classification_heads"


@pydantic_dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class TaskDescription:
    """What the tensors of a task do not say.

    Attributes:
        labels: names of the classes, in the head's order; none for a regression.
        tuning: what was trained, see :data:`~fairseq_ext.modules.tunings.TUNINGS`.
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
        """The description as an entry of a state dict, in JSON."""
        # Earlier entries lack what is false.
        return text_entry(json.dumps({field: value for field, value in asdict(self).items() if value is not False}))

    @classmethod
    def from_entry(cls, entry: Tensor | None, where: str) -> TaskDescription:
        """What :meth:`to_entry` wrote."""
        try:
            return cls(**json.loads(read_text(entry)))  # type: ignore[arg-type]
        except (AttributeError, TypeError, ValueError):
            message = f"{where}: does not describe a task; the file is damaged or of another program"
            raise InputError(message) from None


class TaskParameters(nn.Module):
    """Everything one task adds inside the encoder; its head lies beside it, with fairseq's own.

    L layers take 2·L adapters: attention's, then feed-forward's, layer by layer. Norms are in the order of
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
        """Names of the classes, in the head's order; none for a regression."""
        return TaskDescription.from_entry(self.description, "the model's task").labels


class TaskSwitch(local):
    """Says to all layers of an encoder for which task they compute, in each thread for itself.

    Attributes:
        task: the parameters to take, or None for the base alone.
        waiting: adapters that the current layer has yet to come to.
    """

    task: TaskParameters | None = None
    waiting: Iterator[nn.Module] = iter(())

    def __reduce__(self) -> tuple:
        # A copy of an encoder begins with the base.
        return TaskSwitch, ()

    def adapters(self, layer: int) -> Sequence[nn.Module]:
        """The adapters of a layer, attention's first; none for the base."""
        if self.task is None:
            return ()
        return list(self.task.adapters)[2 * layer : 2 * layer + 2]

    def norm(self, position: int) -> nn.LayerNorm | None:
        """The task's own of the encoder's norms, if it has some."""
        if self.task is None or not len(self.task.norms):
            return None
        return cast(nn.LayerNorm, self.task.norms[position])


class SwitchedLayerNorm(nn.LayerNorm):
    """A layer norm with the base's gain and offset, or those of the switch's task; its epsilon is the base's."""

    def __init__(self, embed_dim: int, switch: TaskSwitch, position: int):
        super().__init__(embed_dim)
        self.switch, self.position = switch, position

    def forward(self, x: Tensor) -> Tensor:
        norm = self.switch.norm(self.position) or self
        return F.layer_norm(x, self.normalized_shape, norm.weight, norm.bias, self.eps)


def switch_norms(encoder: nn.Module, switch: TaskSwitch) -> list[str]:
    """Let an encoder's layer norms follow the switch; their state-dict keys stay. Returns their names, in order."""
    # By the class's name: where apex is installed, fairseq's norms are no nn.LayerNorm.
    norms = {name: module for name, module in encoder.named_modules() if type(module).__name__.endswith("LayerNorm")}
    for position, (name, norm) in enumerate(norms.items()):
        encoder.set_submodule(name, SwitchedLayerNorm(len(norm.weight), switch, position))  # type: ignore[arg-type]
    return list(norms)


def check_task_name(name: str) -> None:
    """A task's name becomes a part of state-dict keys and of file names."""
    if not is_domain_name(name) or hasattr(nn.ModuleDict(), name):
        raise InputError(
            f"--classification-head-name: {name!r} cannot name a task; use letters, digits, '-' and '_', and no "
            "word of torch's own such as 'keys' or 'train'"
        )


def task_names(state: Iterable[str]) -> list[str]:
    """The tasks that have entries in a model's state dict, sorted."""
    return sorted({key.split(".")[1] for key in state if key.startswith(f"{TASKS}.")})


def is_of_task(key: str, name: str) -> bool:
    """Whether a state-dict key belongs to the task: to its head or to what it has inside the encoder."""
    return key.startswith((f"{TASKS}.{name}.", f"{HEADS}.{name}."))


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
    """A task as a state dict holds it; without adapters, or with a linear head, a width is 0."""

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
