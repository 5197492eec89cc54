"""Bank of a domain tree, in which the cost of a training step depends on the active nodes only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from fairseq_ext.modules.adapter_bank import AdapterBank


class NodeBank(AdapterBank):
    """An :class:`AdapterBank` with a shared norm, whose adapters are separate parameters.

    Adapters that are not used in a step have no gradient: the optimiser, gradient clipping and gradient exchange
    between processes skip them, and Adam counts their steps separately. The stacked tensors become buffers, and the
    parameters are views of their rows. State dicts and computation without gradients are those of an
    :class:`AdapterBank`.

    Attributes:
        nodes: parameters by kind of row, one per node.
    """

    nodes: Any  # nn.ModuleDict of _RowViews

    def __init__(self, embed_dim: int, bottleneck_dim: int, num_adapters: int, init_scale: float = 1e-2):
        super().__init__(embed_dim, bottleneck_dim, num_adapters, init_scale, shared_norm=True)
        for kind in self.row_names:
            stacked = getattr(self, kind).detach()
            delattr(self, kind)
            self.register_buffer(kind, stacked)
        self.nodes = nn.ModuleDict({kind: _RowViews(map(nn.Parameter, getattr(self, kind))) for kind in self.row_names})
        self._bind()

    def node_parameters(self, node: int) -> Iterator[nn.Parameter]:
        return (self.nodes[kind][node] for kind in self.row_names)

    def gradients(self, kind: str) -> Iterator[tuple[int, Tensor]]:
        """Yield the nodes that have a gradient for a kind of row, with the gradient."""
        return ((node, p.grad) for node, p in enumerate(self.nodes[kind].parameters()) if p.grad is not None)

    def _rows_of(self, active: Sequence[int] | None) -> Callable[[str], Tensor]:
        stored = super()._rows_of(active)
        if not torch.is_grad_enabled():
            return stored
        numbers = range(self.num_adapters) if active is None else active
        return lambda kind: _stack([self.nodes[kind][n] for n in numbers]) if kind in self.nodes else stored(kind)

    def _bind(self) -> None:
        """Make the parameters views of the rows."""
        for kind, views in self.nodes.items():
            for node, row in enumerate(getattr(self, kind)):
                if torch._has_compatible_shallow_copy_type(views[node], row):
                    views[node].data = row
                else:  # as torch does if ``data`` cannot be set to a tensor of another device
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
    """Parameters whose storage is owned, moved and converted by the bank."""

    def extra_repr(self) -> str:
        return f"{len(self)} rows"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        return self

    def _save_to_state_dict(self, *args: Any) -> None:
        pass

    def _load_from_state_dict(self, *args: Any) -> None:
        pass


def _stack(rows: Sequence[Tensor]) -> Tensor:
    """Stack rows to A×…; a single row is a view."""
    return rows[0].unsqueeze(0) if len(rows) == 1 else torch.stack(list(rows))
