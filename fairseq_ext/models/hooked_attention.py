"""fairseq's attention, computed such that what is hooked onto its projections is heard."""

from typing import Any

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor


def let_hooks_be_heard(attention: MultiheadAttention) -> None:
    """Turn an attention of fairseq's into a :class:`HookedAttention`, in place."""
    attention.__class__ = HookedAttention
    attention.skip_embed_dim_check = True  # or fairseq hands torch the projections' weights


class HookedAttention(MultiheadAttention):
    """Calls its projections as modules; the numbers are fairseq's, bit for bit."""

    def forward(  # type: ignore[override]
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """
        Shape:
            query: T×B×H; key, value: S×B×H; key_padding_mask: B×S; attn_mask: T×S; result: T×B×H, and weights if needed
        """
        if incremental_state is not None or need_weights or kwargs.get("need_head_weights"):
            options = {"incremental_state": incremental_state, "need_weights": need_weights, "static_kv": static_kv}
            return super().forward(query, key, value, key_padding_mask, attn_mask=attn_mask, **options, **kwargs)
        q, k, v = (self._heads(out) for out in (self.q_proj(query), self.k_proj(key), self.v_proj(value)))
        mask = None if attn_mask is None else attn_mask.to(q.dtype)[None, None]
        if key_padding_mask is not None:
            padding = torch.zeros_like(key_padding_mask, dtype=q.dtype)
            padding = padding.masked_fill_(key_padding_mask.bool(), -torch.inf)[:, None, None]
            mask = padding if mask is None else mask + padding
        dropout = self.dropout_module.p if self.training or self.dropout_module.apply_during_inference else 0.0
        out = F.scaled_dot_product_attention(q, k, v, mask, dropout)  # B×heads×T×H/heads
        return self.out_proj(out.permute(2, 0, 1, 3).flatten(2)), None

    def _heads(self, x: Tensor) -> Tensor:
        """T×B×H → B×heads×T×H/heads."""
        return x.unflatten(-1, (self.num_heads, -1)).permute(1, 2, 0, 3)
