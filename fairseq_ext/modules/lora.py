"""LoRA (Hu et al. 2022) as a bank: low-rank adapters parallel to linear layers, mixed like other adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_ext.modules.adapter_bank import Bank, add_up
from fairseq_ext.modules.autocast import autocast_dtype, without_autocast
from fairseq_ext.modules.chosen_adapters import Chosen, mix
from fairseq_ext.modules.post_layer_adapter import current_batch

# Linear layers of a fairseq layer that can be adapted. Keys and values of the cross-attention cannot: they belong to
# source positions, for which decoder gates have no weights.
PLACES = {
    "q": ("self_attn.q_proj", "encoder_attn.q_proj"),
    "k": ("self_attn.k_proj",),
    "v": ("self_attn.v_proj",),
    "out": ("self_attn.out_proj", "encoder_attn.out_proj"),
    "forget": ("self_attn.forget",),  # of an SSRU
    "candidate": ("self_attn.candidate",),
    "fc1": ("fc1",),
    "fc2": ("fc2",),
}


class LoraBank(Bank):
    """D low-rank adapters of one linear layer computed together: ``y + α/r · Σ_d w_d · up_d(down_d(x))``.

    Hu et al. (2022, Eq. 3), where ``down`` is A and ``up``, which starts at zero, is B. The weights need not sum to 1.

    Shape:
        x: T×B×input_dim; onto and result: T×B×output_dim
    """

    last = "up_weight"
    row_names = ("down_weight", "up_weight")

    def __init__(
        self, input_dim: int, output_dim: int, rank: int, num_adapters: int, alpha: float, init_scale: float = 1e-2
    ):
        super().__init__()
        self.num_adapters = num_adapters
        self.scale = alpha / rank
        self.down_weight = nn.Parameter(torch.empty(num_adapters, rank, input_dim))
        self.up_weight = nn.Parameter(torch.zeros(num_adapters, rank, output_dim))
        nn.init.trunc_normal_(self.down_weight, std=init_scale, a=-2 * init_scale, b=2 * init_scale)

    def forward(self, x: Tensor, weights: Tensor, active: Sequence[int] | None = None, onto: Any = None) -> Tensor:
        rows = self._rows_of(active)
        hidden = F.linear(x, rows("down_weight").flatten(0, 1))  # T×B×A·r
        return add_up(onto, hidden, weights, rows("up_weight").flatten(0, 1) * self.scale)

    def mix_chosen(self, x: Tensor, chosen: Chosen, onto: Any = None) -> Tensor:
        inputs = x.flatten(0, -2).to(autocast_dtype(x))
        rows = self._rows_of(chosen.active)
        stacked = (rows("down_weight"), rows("up_weight") * self.scale)
        down, up = (each.to(inputs.dtype).unbind() for each in stacked)
        with without_autocast(x):
            mixed = mix(inputs, chosen, onto.size(-1), lambda n, part: F.linear(part, down[n]) @ up[n])
        return onto + mixed.view_as(onto)


class LoraAdapter(nn.Module):
    """A bank hooked to a linear layer, mixed as the layer's router has decided.

    Dropout is applied to the adapters' input.
    """

    def __init__(self, bank: LoraBank, dropout: float = 0.0):
        super().__init__()
        self.bank = bank
        self.dropout = nn.Dropout(dropout)

    def attach(self, linear: nn.Module) -> None:
        """Become ``linear.adapter`` and add to the layer's output from now on."""
        linear.adapter = self
        linear.register_forward_hook(self._after_linear)

    def forward(self, x: Tensor, onto: Tensor) -> Tensor:
        mixture = current_batch().mixture
        assert mixture is not None
        return mixture(self.bank, self.dropout(x), onto)

    def _after_linear(self, _linear: nn.Module, args: tuple, output: Tensor) -> Tensor:
        return self(args[0], output)


class LayerRouter(nn.Module):
    """The router of all banks of a layer; its input is the layer's input."""

    def __init__(self, router: nn.Module):
        super().__init__()
        self.router = router

    def attach(self, layer: nn.Module) -> None:
        """Become ``layer.adapter`` and compute the mixture before the layer runs."""
        layer.adapter = self
        layer.register_forward_pre_hook(self._before_layer)

    def _before_layer(self, _layer: nn.Module, args: tuple[Any, ...]) -> None:
        batch = current_batch()
        # Not called as a module: hooks on modules, such as fairseq's NanDetector, expect tensors.
        batch.mixture = self.router.forward(args[0], batch)


def lora_places(layer: nn.Module, names: Sequence[str]) -> list[nn.Linear]:
    """Return the named linear layers of a fairseq layer, see :data:`PLACES`; cross-attention may be missing."""
    found = dict(layer.named_modules())
    return [found[path] for name in names for path in PLACES[name] if path in found]  # type: ignore[misc]
