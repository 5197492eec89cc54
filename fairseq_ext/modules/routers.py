"""Routers, which decide the weight of each adapter of a bank.

A router computes a mixture from hidden states, which is then applied to one bank or to all banks of a layer. Its other
inputs are in ``RoutingBatch``, one object per batch and stack of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_ext.modules.adapter_bank import Bank
from fairseq_ext.modules.autocast import without_autocast
from fairseq_ext.modules.chosen_adapters import Chosen, choose
from fairseq_ext.modules.running_mean import Positions, RunningMean, sequence_mean

# Up to this number of adapters, an accelerator computes all for a single position faster than it sorts them.
FEW = 16


# The adapters of each position and their weights. Arguments: the bank, the adapters' input (T×B×H), and the tensor to
# add their outputs to (T×B×P).
Mixture = Callable[[Bank, Tensor, Tensor], Tensor]


def weighted(weights: Tensor, active: Sequence[int] | None = None) -> Mixture:
    """Return a mixture that computes all active adapters for all positions."""
    return lambda bank, x, onto: bank(x, weights, active, onto)


def sparse(chosen: Chosen) -> Mixture:
    """Return a mixture that computes each position's chosen adapters only."""
    return lambda bank, x, onto: bank.mix_chosen(x, chosen, onto)


@dataclass
class RoutingBatch:
    """Inputs and outputs of routers for a batch that passes through a stack of layers.

    Attributes:
        padding_mask: B×T, True for padding; None for no padding, as in cached decoding.
        given_weights: B×D, or 1×D for all rows: routing weights that are known before the model runs. A row sums
            to one or is all zero (no adapter).
        most_given: maximum number of nonzero weights in a row; None if unknown.
        is_forced: B, rows in which the given weights replace those of gates; None for no row.
        incremental_state: fairseq's, in cached decoding.
        known_logits: 1×B×D, known before the layers run; gates add them to their own logits. None for none.
        gate_logits: filled by gate routers, one tensor per layer, before temperature; not in cached decoding.
        mixture: mixture of the current layer, if one router serves several banks.
    """

    padding_mask: Tensor | None = None
    given_weights: Tensor | None = None
    most_given: int | None = None
    is_forced: Tensor | None = None
    incremental_state: dict | None = None
    known_logits: Tensor | None = None
    gate_logits: list[Tensor] = field(default_factory=list)
    mixture: Mixture | None = None
    _chosen: Chosen | None = None

    @cached_property
    def positions(self) -> Positions:
        """The non-padding positions, shared by all layers."""
        return Positions(self.padding_mask)

    @cached_property
    def most(self) -> int:
        """Maximum number of nonzero given weights in a row; synchronises with the device if it is unknown."""
        assert self.given_weights is not None
        return most_chosen(self.given_weights) if self.most_given is None else self.most_given

    def choose_given(self, x: Tensor, active: Sequence[int] | None = None) -> Chosen:
        """Return the given adapters of all positions of x, T×B×H; cached for all layers."""
        if self._chosen is None:
            assert self.given_weights is not None
            weights = self.given_weights if active is None else self.given_weights[:, active]
            self._chosen = choose(weights, x, self.most, active)
        return self._chosen

    @cached_property
    def active(self) -> list[int]:
        """Adapters with a nonzero given weight in any row, or else the first one; synchronises with the device."""
        assert self.given_weights is not None
        return self.given_weights.ne(0).any(0).nonzero().squeeze(1).tolist() or [0]

    def of_decoder(self, padding_mask: Tensor | None, incremental_state: dict | None) -> RoutingBatch:
        """Return the batch for a decoder, from that of its encoder."""
        given = (self.given_weights, self.most_given, self.is_forced)
        return RoutingBatch(padding_mask, *given, incremental_state, self.known_logits)

    def reordered(self, new_order: Tensor) -> RoutingBatch:
        """Return a decoder's inputs for rows in another order, as in a beam."""

        def moved(value: Tensor | None, dim: int) -> Tensor | None:
            return None if value is None else value.index_select(dim, new_order)

        given, is_forced, known = moved(self.given_weights, 0), moved(self.is_forced, 0), moved(self.known_logits, 1)
        return RoutingBatch(None, given, self.most_given, is_forced, known_logits=known)

    def force(self, weights: Tensor) -> Tensor:
        """Replace a gate's weights by the given ones in forced rows: T×B×D."""
        if self.is_forced is None:
            return weights
        assert self.given_weights is not None
        return torch.where(self.is_forced.unsqueeze(1), self.given_weights.to(weights), weights)


def most_chosen(given_weights: Tensor) -> int:
    """Return the maximum number of nonzero weights in a row (at least 1); synchronises with the device."""
    return max(int(given_weights.ne(0).sum(-1).max()), 1)


class GivenRouter(nn.Module):
    """Router with weights from the batch: the adapter of the sentence's domain, or those on a path of a domain tree.

    Only adapters with a nonzero weight are computed, each for its rows only. In a decoding step, an accelerator
    computes all if there are at most :data:`FEW`.

    Args:
        gathers: whether to select the batch's active adapters first in training, at the cost of a device
            synchronisation, so that unused adapters have no gradient.
    """

    def __init__(self, gathers: bool = False):
        super().__init__()
        self.gathers = gathers

    def forward(self, x: Tensor, batch: RoutingBatch) -> Mixture:
        if batch.given_weights is None:
            raise ValueError("these adapters need the domain or path of every sentence")
        num_adapters = batch.given_weights.size(-1)
        # If a row may use all adapters, there is nothing to skip.
        if computes_all(x, num_adapters) or batch.most == num_adapters > 1:
            return weighted(batch.given_weights.unsqueeze(0))
        gathers = self.gathers and torch.is_grad_enabled()
        if (gathers or x.device.type == "cpu") and len(batch.active) <= batch.most:
            return weighted(batch.given_weights[:, batch.active].unsqueeze(0), batch.active)
        return sparse(batch.choose_given(x, batch.active if gathers else None))


def computes_all(x: Tensor, num_adapters: int) -> bool:
    """Return whether to compute all adapters even if few have a weight: x, T×B×H, is one decoding step on a device."""
    return x.device.type != "cpu" and len(x) == 1 and num_adapters <= FEW


class GuardedRows:
    """Guarded adapters of a gate, added after the other (settled) ones were trained.

    A guarded adapter is used only where its logit is the highest. All other results equal those of the settled adapters
    alone, bit for bit.

    Attributes:
        parts: outputs of the settled adapters, with the base, and of the guarded ones.
    """

    def __init__(self, guarded: Sequence[int], num_outputs: int):
        self.parts = [row for row in range(num_outputs) if row not in guarded], list(guarded)

    def loses(self, logits: Tensor) -> Tensor:
        """Return where guarded adapters are not used, …×D."""
        settled, _ = self.parts
        loses = logits.le(logits[..., settled].amax(-1, keepdim=True)) | logits.lt(logits.amax(-1, keepdim=True))
        loses[..., settled] = False
        return loses

    def in_order(self, scores: Sequence[Tensor]) -> Tensor:
        """Join the scores of both parts, computed apart as the last bit of a product may depend on its width: …×D."""
        rows = [*self.parts[0], *self.parts[1]]
        return torch.cat([*scores], -1)[..., sorted(range(len(rows)), key=rows.__getitem__)]


class GateRouter(nn.Module):
    """Router of gated adapters: a learned gate mixes all adapters (Klimaszewski et al. 2023, §2.2.1, Eq. 2-3).

    ``weights = softmax(g / β)`` with ``g = W_g · mean(x)``. Projection and mean commute, so the D scores
    of every position are averaged rather than its H features, with equal results and a running state of only D
    floats per sentence. Encoders average over the sentence, decoders over positions 1…t. Known logits of the batch are
    added to g, or replace it. Rows that the batch forces use its given weights instead.

    With ``has_base``, the gate has one more output, the last: the base model alone. The softmax is over all D + 1
    outputs, and the weights of the D adapters sum to less than one, so that ``x + Σ_d w_d f_d(x)`` moves towards x.

    A sparse gate computes only the adapters with the largest weights and renormalises these to sum to one (Shazeer et
    al. 2017, §2.1, without noise). Criterions still see all logits.

    Args:
        temperature: β.
        causal: whether to average over the prefix (decoder) instead of the whole sequence (encoder).
        top_k: number of weights to keep; 0 for all.
        reads_states: whether to project states by ``W_g``; otherwise the gate is the batch's known logits.
        has_base: whether the gate may choose the base; all logits then have D + 1 columns.

    Attributes:
        weight: ``W_g``, D×H; None if the gate does not read states.
        base_weight: the base's row, 1×H; None if the gate does not read states or has no base.
        guarded: rows of guarded adapters, see :class:`GuardedRows`.
    """

    guarded: tuple[int, ...] = ()
    weight: nn.Parameter | None
    base_weight: nn.Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_adapters: int,
        temperature: float,
        causal: bool,
        top_k: int = 0,
        reads_states: bool = True,
        has_base: bool = False,
    ):
        super().__init__()
        self.temperature, self.top_k, self.has_base = temperature, top_k, has_base
        self.causal = causal
        self.num_adapters = num_adapters
        # Zeros give uniform weights at initialisation.
        self.register_parameter("weight", nn.Parameter(torch.zeros(num_adapters, embed_dim)) if reads_states else None)
        base = nn.Parameter(torch.zeros(1, embed_dim)) if reads_states and has_base else None
        self.register_parameter("base_weight", base)
        self.running_mean = RunningMean() if causal and reads_states else None

    @property
    def row_names(self) -> tuple[str, ...]:
        return () if self.weight is None else ("weight",)

    @property
    def rows(self) -> Tensor:
        """The rows of all outputs, D×H or (D+1)×H."""
        assert self.weight is not None
        return self.weight if self.base_weight is None else torch.cat([self.weight, self.base_weight])

    @property
    def num_outputs(self) -> int:
        return self.num_adapters + self.has_base

    @property
    def _guard(self) -> GuardedRows:
        return GuardedRows(self.guarded, self.num_outputs)

    def gate_logits(self, x: Tensor, batch: RoutingBatch) -> Tensor:
        """Compute the gate logits in float32: T×B×H → T×B×D for a causal router, else 1×B×D."""
        known = batch.known_logits
        if self.weight is None:
            assert known is not None
            return known.expand(len(x) if self.causal else 1, -1, -1)
        if self.running_mean is not None:
            own = self.running_mean(self._scores(x), batch.positions)
        else:
            own = self._scores(x, partial(sequence_mean, positions=batch.positions))
        return own if known is None else own + known

    def _scores(self, x: Tensor, mean: Callable[[Tensor], Tensor] = lambda scores: scores) -> Tensor:
        """Project every position, and average if requested: T×B×D or 1×B×D."""
        # The residual stream is not normalised here: autocast would round it, and make large values infinite.
        weight = self.rows.to(x.dtype)
        with without_autocast(x):
            if not self.guarded:
                return mean(F.linear(x, weight))
            return self._guard.in_order([mean(F.linear(x, weight[rows])) for rows in self._guard.parts])

    def weights(self, logits: Tensor) -> Tensor:
        """Return the routing weights of logits, …×D; rows sum to one, or with the base to one or less."""
        return self._weights(logits / self.temperature)

    def _weights(self, scaled: Tensor) -> Tensor:
        """Return the routing weights of logits that are already divided by β: …×D."""
        if self.guarded:
            scaled = scaled.masked_fill(self._guard.loses(scaled), float("-inf"))
        return self._kept(scaled.softmax(-1))[..., : self.num_adapters]

    def is_sparse(self, num_adapters: int) -> bool:
        """Return whether the gate drops some of this number of weights."""
        return 0 < self.top_k < num_adapters

    def _kept(self, weights: Tensor) -> Tensor:
        """Keep the largest weights, …×A, and renormalise them to sum to one; the rest become zero."""
        if not self.is_sparse(weights.size(-1)):
            return weights
        largest, adapters = weights.topk(self.top_k, dim=-1)
        return torch.zeros_like(weights).scatter(-1, adapters, largest / largest.sum(-1, keepdim=True))

    def forward(self, x: Tensor, batch: RoutingBatch) -> Mixture:
        scaled = self._scaled_logits(x, batch)
        weights = batch.force(self._weights(scaled))
        most = self.top_k if batch.is_forced is None else max(self.top_k, batch.most)
        if not self.guarded:
            return self._mixture(x, weights, most)
        settled, guarded = self._guard.parts
        kept = self._kept(scaled[..., settled].softmax(-1))
        adapters = settled[:-1] if self.has_base else settled
        alone = self._mixture(x, kept[..., : len(adapters)], self.top_k, adapters)
        is_other = ~self._guard.loses(scaled)[..., guarded].all(-1, keepdim=True)
        if batch.is_forced is not None:
            is_other = is_other | batch.is_forced.unsqueeze(-1)
        if x.device.type == "cpu" and not bool(is_other.any()):
            return alone
        mixed = self._mixture(x, weights, most)
        return lambda bank, x, onto: torch.where(is_other, mixed(bank, x, onto), alone(bank, x, onto))

    def _mixture(self, x: Tensor, weights: Tensor, most: int, active: Sequence[int] | None = None) -> Mixture:
        """Return the mixture with weights T×B×A; if the gate is sparse, at most ``most`` a position are nonzero."""
        if not self.is_sparse(weights.size(-1)) or computes_all(x, self.num_adapters):
            return weighted(weights, active)
        if active is not None:  # restore the numbering of all adapters
            everyone = weights.new_zeros(*weights.shape[:-1], self.num_adapters)
            weights = everyone.index_copy(-1, torch.tensor(active, device=x.device), weights)
        return sparse(choose(weights, x, min(most, self.num_adapters)))

    def _scaled_logits(self, x: Tensor, batch: RoutingBatch) -> Tensor:
        """Return the logits divided by β; except in cached decoding, store the logits in the batch for criterions."""
        if batch.incremental_state is None or self.running_mean is None:
            logits = self.gate_logits(x, batch)
            batch.gate_logits.append(logits)
            return logits / self.temperature
        own = self.running_mean.step(self._scores(x), batch.incremental_state, self.temperature)
        known = batch.known_logits
        return own if known is None else own.add(known, alpha=1 / self.temperature)
