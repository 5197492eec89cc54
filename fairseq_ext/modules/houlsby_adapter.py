"""The bottleneck adapter of Houlsby et al. (2019)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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

    Args:
        embed_dim: H, width of the hidden states.
        bottleneck_dim: b, inner width, at least 1.
        init_scale: standard deviation of the weights at the start, at least 0.
        activation_fn: name of the non-linearity, one of :data:`ACTIVATIONS`.

    Shape:
        x: …×H; result: …×H

    Raises:
        ValueError: if a size is below 1, ``init_scale`` below 0, or the activation unknown.
    """

    def __init__(self, embed_dim: int, bottleneck_dim: int, init_scale: float = 1e-2, activation_fn: str = "gelu"):
        super().__init__()
        if min(embed_dim, bottleneck_dim) < 1 or init_scale < 0:
            raise ValueError(
                "embed_dim and bottleneck_dim must be at least 1, init_scale at least 0, "
                f"not {embed_dim}, {bottleneck_dim}, {init_scale}"
            )
        if activation_fn not in ACTIVATIONS:
            raise ValueError(f"activation_fn must be one of {', '.join(ACTIVATIONS)}, not {activation_fn!r}")
        self.down = nn.Linear(embed_dim, bottleneck_dim)
        self.up = nn.Linear(bottleneck_dim, embed_dim)
        self.activation_fn = ACTIVATIONS[activation_fn]
        for projection in (self.down, self.up):
            nn.init.trunc_normal_(projection.weight, a=-2, b=2)
            projection.weight.data *= init_scale
            nn.init.zeros_(projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.up(self.activation_fn(self.down(x)))
