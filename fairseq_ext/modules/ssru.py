"""SSRU: a recurrent cell that replaces the self-attention of a decoder."""

from __future__ import annotations

import uuid
from typing import Any

import torch
from torch import Tensor, nn


class SSRU(nn.Module):
    """Simpler simple recurrent unit, called as fairseq calls the self-attention of a decoder layer.

    Kim et al. 2019, "From Research to Production and Back: Ludicrously Fast Neural Machine Translation".

    The cell is ``c_t = f_t ⊙ c_{t−1} + (1 − f_t) ⊙ W x_t`` with ``f_t = σ(W_f x_t + b_f)`` and ``c_0 = 0``, and the
    output is ``relu(c_t)``. Incremental decoding keeps the last cell of each sentence, whatever the length.

    Args:
        embed_dim: H, width of the hidden states.

    Shape:
        query: T×B×H; key_padding_mask: B×T, True for padding, which leaves the cell as it is; result: T×B×H
    """

    # fairseq's layer reads them of a self-attention.
    num_heads = 1

    def __init__(self, embed_dim: int):
        super().__init__()
        self.head_dim = embed_dim
        self.forget = nn.Linear(embed_dim, embed_dim)
        self.candidate = nn.Linear(embed_dim, embed_dim, bias=False)
        for linear in (self.forget, self.candidate):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.forget.bias)
        # Modules share one dictionary in fairseq, so each needs a unique key.
        self.state_key = f"{uuid.uuid4()}.ssru"

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        """Run the cell over all positions, or over those that follow the state. ``key`` and ``value`` are the query."""
        # Half precision rounds a forget gate close to 1 up to 1.
        forget, candidate = self.forget(query).float().sigmoid(), self.candidate(query).float()
        if key_padding_mask is not None:
            forget = forget.masked_fill(key_padding_mask.t().unsqueeze(-1), 1.0)
        cell = self._get_input_buffer(incremental_state).get("cell", torch.zeros_like(candidate[0]))
        cells = []
        # On a CPU, a scan of logarithmic depth takes five times as long: it computes every position several times.
        for forget_now, candidate_now in zip(forget.unbind(), candidate.unbind(), strict=True):
            cell = torch.lerp(candidate_now, cell, forget_now)
            cells.append(cell)
        if incremental_state is not None:
            incremental_state[self.state_key] = {"cell": cell}
        return torch.stack(cells).relu().to(query.dtype), None

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Reorder the cells with the beam: row i of the result is row ``new_order[i]`` of the state."""
        if saved := self._get_input_buffer(incremental_state):
            incremental_state[self.state_key] = {"cell": saved["cell"].index_select(0, new_order)}

    def _get_input_buffer(self, incremental_state: dict | None) -> dict[str, Tensor]:
        """Return the state of the last position, B×H; empty before the first."""
        return (incremental_state or {}).get(self.state_key, {})
