"""Adapter banks: all adapters of one layer, stacked in tensors and computed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_ext.modules.autocast import autocast_dtype, autocasts, without_autocast
from fairseq_ext.modules.chosen_adapters import Chosen, mix


class Bank(nn.Module):
    """D adapters at one place in a model, one row each in stacked parameters.

    Attributes:
        row_names: names of the parameters with one row per adapter.
        last: the parameter among them that is applied last on every path to a loss.
    """

    row_names: tuple[str, ...]
    last: str
    num_adapters: int

    def forward(self, x: Tensor, weights: Tensor, active: Sequence[int] | None = None, onto: Any = None) -> Tensor:
        """Compute the A active adapters (None: all) and add their mixture to ``onto`` (None: ``x``).

        Shape:
            x: T×B×H; weights: broadcastable to T×B×A; onto, result: T×B×P
        """
        raise NotImplementedError

    def mix_chosen(self, x: Tensor, chosen: Chosen, onto: Any = None) -> Tensor:
        """Compute the adapters that each position chose and add their mixture to ``onto``.

        Shape:
            x: T×B×H; chosen: for T·B positions; onto, result: T×B×P
        """
        raise NotImplementedError

    def _rows_of(self, active: Sequence[int] | None) -> Callable[[str], Tensor]:
        """Return a function from a parameter's name to its rows for these adapters, A×…."""
        if active is None:
            return partial(getattr, self)
        if len(active) == 1:  # a view, not a copy
            return lambda name: getattr(self, name)[active[0] : active[0] + 1]
        chosen = torch.tensor(active, device=getattr(self, self.last).device)
        return lambda name: getattr(self, name).index_select(0, chosen)


class AdapterBank(Bank):
    """D bottleneck adapters computed together: ``x + Σ_d w_d · up_d(relu(down_d(norm_d(x))))``.

    The adapter is that of Bapna & Firat (2019, §3); the mixture is Klimaszewski et al. (2023, Eq. 1-2)
    with Σ_d w_d = 1, so that the residual is just x. One normalisation serves all adapters: the gains
    and offsets of their layer norms fold into ``down``, and the mixture becomes one H→D·b projection, a
    ReLU, a scaling of each b-wide block by its weight, and one D·b→H projection.

    A new bank computes ``x`` exactly: ``up`` starts at zero and ``down`` near zero, from a truncated normal
    as in Houlsby et al. (2019, §3.6). If both started at zero, neither would get a gradient.

    Args:
        embed_dim: H, model dimension.
        bottleneck_dim: b, bottleneck dimension of an adapter.
        num_adapters: D.
        init_scale: standard deviation of ``down`` at initialisation, truncated at two standard deviations.
        shared_norm: whether all adapters share one gain and offset.

    Shape:
        x, result: T×B×H; weights: broadcastable to T×B×A, rows sum to 1
    """

    last = "up_bias"
    folded_weight: Tensor | None
    folded_bias: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        bottleneck_dim: int,
        num_adapters: int,
        init_scale: float = 1e-2,
        shared_norm: bool = False,
    ):
        super().__init__()
        self.embed_dim, self.bottleneck_dim, self.num_adapters = embed_dim, bottleneck_dim, num_adapters
        self.shared_norm = shared_norm
        norms = () if shared_norm else ("norm_weight", "norm_bias")
        self.row_names = ("down_weight", "down_bias", "up_weight", "up_bias", *norms)
        num_norms = 1 if shared_norm else num_adapters
        self.norm_weight = nn.Parameter(torch.ones(num_norms, embed_dim))
        self.norm_bias = nn.Parameter(torch.zeros(num_norms, embed_dim))
        self.down_weight = nn.Parameter(torch.empty(num_adapters, bottleneck_dim, embed_dim))
        self.down_bias = nn.Parameter(torch.zeros(num_adapters, bottleneck_dim))
        # D×b×H, the transpose of nn.Linear's layout: the D·b→H projection of the whole bank is then a view.
        self.up_weight = nn.Parameter(torch.zeros(num_adapters, bottleneck_dim, embed_dim))
        self.up_bias = nn.Parameter(torch.zeros(num_adapters, embed_dim))
        nn.init.trunc_normal_(self.down_weight, std=init_scale, a=-2 * init_scale, b=2 * init_scale)
        # Down projections with folded norms, set for inference only. As non-persistent buffers they follow the model
        # to another device or dtype but stay out of the state dict.
        self.register_buffer("folded_weight", None, persistent=False)
        self.register_buffer("folded_bias", None, persistent=False)

    def forward(self, x: Tensor, weights: Tensor, active: Sequence[int] | None = None, onto: Any = None) -> Tensor:
        rows = self._rows_of(active)
        down_weight, down_bias = self.folded(rows)
        normed = F.layer_norm(x, (self.embed_dim,))
        hidden = _linear_relu(normed, down_weight.flatten(0, 1), down_bias.flatten())  # T×B×A·b
        residual = _add_biases(x if onto is None else onto, weights.to(x.dtype), rows("up_bias"))
        return add_up(residual, hidden, weights, rows("up_weight").flatten(0, 1))

    def mix_chosen(self, x: Tensor, chosen: Chosen, onto: Any = None) -> Tensor:
        normed = F.layer_norm(x, (self.embed_dim,)).flatten(0, -2).to(autocast_dtype(x))
        rows = self._rows_of(chosen.active)
        # Unbound once, as each index of a stacked tensor would make a gradient of the size of the whole.
        stacked = (*self.folded(rows), rows("up_weight"), rows("up_bias"))
        down, down_bias, up, up_bias = (each.to(normed.dtype).unbind() for each in stacked)

        def adapt(n: int, inputs: Tensor) -> Tensor:
            return torch.addmm(up_bias[n], F.relu(F.linear(inputs, down[n], down_bias[n])), up[n])

        with without_autocast(x):
            mixed = mix(normed, chosen, self.embed_dim, adapt)
        return (x if onto is None else onto) + mixed.view_as(x)

    def folded(self, rows: Callable[[str], Tensor]) -> tuple[Tensor, Tensor]:
        """Return the down projections of A adapters with their layer norms folded in: A×b×H and A×b.

        ``down(x · γ + β) = (down · γ) · x + down · β`` for a gain γ and an offset β.
        """
        if self.folded_weight is not None:
            return rows("folded_weight"), rows("folded_bias")
        norms = partial(getattr, self) if self.shared_norm else rows
        weight, bias = rows("down_weight"), rows("down_bias")
        gains, offsets = (norms(name).expand(len(weight), -1) for name in ("norm_weight", "norm_bias"))
        return weight * gains.unsqueeze(1), bias + torch.einsum("dbh,dh->db", weight, offsets)

    def make_generation_fast_(self, **_: object) -> None:
        """Fold the layer norms once instead of at every step; fairseq calls this hook before decoding."""
        with torch.no_grad():
            self.folded_weight, self.folded_bias = self.folded(self._rows_of(None))

    def train(self, mode: bool = True) -> AdapterBank:
        if mode:
            self._unfold()
        return super().train(mode)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._unfold()
        super()._load_from_state_dict(*args, **kwargs)

    def _unfold(self) -> None:
        self.folded_weight = self.folded_bias = None


class _AddWeightedUp(torch.autograd.Function):
    """``residual + scaled @ up``, where ``scaled`` is ``hidden`` with every b-wide block multiplied by its weight.

    The backward pass recomputes ``scaled`` instead of saving it: in training, a bank then stores
    D·b numbers per token rather than twice as many.

    Shape:
        residual: N×H, of any dtype; hidden: …×A·b; weights: broadcastable to …×A; up: A·b×H, all three of one dtype;
        result: N×H
    """

    @staticmethod
    def forward(ctx: Any, residual: Tensor, hidden: Tensor, weights: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, weights, up)
        scaled = _scale_blocks(hidden, weights)
        return _add_product(residual, scaled.flatten(0, -2), up)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        hidden, weights, up = ctx.saved_tensors
        _, needs_hidden, needs_weights, needs_up = ctx.needs_input_grad
        grad_hidden = grad_weights = grad_up = None
        # Use the dtypes of the forward pass even if autocast is enabled around the backward pass.
        with without_autocast(grad):
            grad_product = grad.to(up.dtype).view(*hidden.shape[:-1], -1)
            if needs_hidden or needs_weights:
                grad_scaled = grad_product @ up.t()
            if needs_hidden:
                grad_hidden = _scale_blocks(grad_scaled, weights)
            if needs_weights:
                by_adapter = (grad_scaled * hidden).unflatten(-1, (weights.size(-1), -1)).sum(-1)
                grad_weights = by_adapter.sum_to_size(weights.shape)
            if needs_up:
                grad_up = _scale_blocks(hidden, weights).flatten(0, -2).t() @ grad_product.flatten(0, -2)
        return grad, grad_hidden, grad_weights, grad_up


def add_up(residual: Tensor, hidden: Tensor, weights: Tensor, up: Tensor) -> Tensor:
    """Return ``residual + Σ_d w_d · up_d(hidden_d)``.

    Shape:
        residual: …×H; hidden: …×A·b; weights: broadcastable to …×A; up: A·b×H; result: …×H, in the residual's dtype
    """
    # Under autocast, only the residual keeps its dtype.
    low_weights, low_up = weights.to(hidden.dtype), up.to(hidden.dtype)
    return _AddWeightedUp.apply(residual.flatten(0, -2), hidden, low_weights, low_up).view_as(residual)


def _linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return ``relu(x @ weight.T + bias)``, computed by one fused operator if gradients are disabled."""
    if torch.is_grad_enabled() or autocasts(x) or x.dtype != weight.dtype:
        return F.relu(F.linear(x, weight, bias))
    return torch._addmm_activation(bias, x.flatten(0, -2), weight.t()).unflatten(0, x.shape[:-1])


def _add_biases(x: Tensor, weights: Tensor, up_bias: Tensor) -> Tensor:
    """Return ``x + Σ_d w_d · b_d`` in the dtype of x: T×B×H, broadcastable to T×B×A, and A×H → T×B×H."""
    if weights.shape[:-1] != x.shape[:-1] or up_bias.dtype != x.dtype or autocasts(x):
        return x + (weights @ up_bias).to(x.dtype)
    return torch.addmm(x.flatten(0, -2), weights.flatten(0, -2), up_bias).view_as(x)


def _add_product(residual: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return ``residual + left @ right`` in the dtype of the residual: N×H, N×K and K×H → N×H."""
    if residual.dtype == left.dtype:
        return torch.addmm(residual, left, right)
    # Autocast has lowered the factors' precision; a fused operation would round the residual too.
    return residual + left @ right


def _scale_blocks(x: Tensor, weights: Tensor) -> Tensor:
    """Multiply each b-wide block by its weight: …×A·b and …×A → …×A·b."""
    return (x.unflatten(-1, (weights.size(-1), -1)) * weights.unsqueeze(-1)).flatten(-2)
