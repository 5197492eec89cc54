"""The bank of a domain tree: a training step costs what its active nodes cost, however many others there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from fairseq_ext.modules.adapter_bank import AdapterBank


class NodeBank(AdapterBank):
    """An :class:`AdapterBank` with one norm for all, whose adapters are parameters of their own.

    An adapter that takes no part in a step has no gradient: no optimiser, clipping of gradients or exchange of
    them between processes comes by it, and Adam counts its steps for it alone. The stacked tensors stay what they
    are, as buffers: state dicts are those of an :class:`AdapterBank`, and without gradients a bank computes as it
    does. The parameters are views of their rows.

    Attributes:
        nodes: by kind of row, one parameter a node.
    """

    def __init__(self, embed_dim: int, bottleneck_dim: int, num_adapters: int, init_scale: float = 1e-2):
        super().__init__(embed_dim, bottleneck_dim, num_adapters, init_scale, shared_norm=True)
        for kind in self.row_names:
            stacked = getattr(self, kind).detach()
            delattr(self, kind)
            self.register_buffer(kind, stacked)
        self.nodes = nn.ModuleDict({kind: _RowViews(map(nn.Parameter, getattr(self, kind))) for kind in self.row_names})
        self._bind()

    def node_parameters(self, node: int) -> Iterator[nn.Parameter]:
        return (self._of(kind)[node] for kind in self.row_names)

    def gradients(self, kind: str) -> Iterator[tuple[int, Tensor]]:
        """The nodes that have a gradient of a kind of row, and it; to come by the others costs little."""
        parameters = enumerate(self.nodes[kind]._parameters.values())
        return ((node, p.grad) for node, p in parameters if p is not None and p.grad is not None)

    def _of(self, kind: str) -> _RowViews:
        views = self.nodes[kind]
        assert isinstance(views, _RowViews)
        return views

    def _rows_of(self, active: Sequence[int] | None) -> Callable[[str], Tensor]:
        stored = super()._rows_of(active)
        if not torch.is_grad_enabled():
            return stored
        numbers = range(self.num_adapters) if active is None else active
        return lambda kind: _stack([self._of(kind)[n] for n in numbers]) if kind in self.nodes else stored(kind)

    def _bind(self) -> None:
        """Let the parameters be views of the rows."""
        for kind in self.nodes:
            views = self._of(kind)
            for node, row in enumerate(getattr(self, kind)):
                if torch._has_compatible_shallow_copy_type(views[node], row):
                    views[node].data = row
                else:  # as torch does where a tensor cannot become one of another device
                    views[node] = nn.Parameter(row, views[node].requires_grad)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self._bind()
        for parameter in self.nodes.parameters():
            parameter.grad = None if parameter.grad is None else fn(parameter.grad)
        return self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._bind()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._bind()


class _RowViews(nn.ParameterList):
    """Parameters whose numbers are stored, moved and converted elsewhere."""

    def extra_repr(self) -> str:
        return f"{len(self)} rows"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        return self

    def _save_to_state_dict(self, *args: Any) -> None:
        pass

    def _load_from_state_dict(self, *args: Any) -> None:
        pass


def _stack(rows: Sequence[Tensor]) -> Tensor:
    """A×…; of a single one a view."""
    return rows[0].unsqueeze(0) if len(rows) == 1 else torch.stack(list(rows))
