"""Routers: who decides with what weight each adapter of a bank takes part.

A router finds the mixture for hidden states; a mixture is then applied to one bank, or to all banks of a layer. What a
router may look at besides the hidden states is in ``RoutingBatch``, one object per batch and stack of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_ext.modules.adapter_bank import Bank
from fairseq_ext.modules.autocast import without_autocast
from fairseq_ext.modules.chosen_adapters import AdapterRows, choose
from fairseq_ext.modules.running_mean import Positions, RunningMean, sequence_mean

# With so many adapters, an accelerator computes all for a single position sooner than it would sort them.
FEW = 16


# Which adapters take part for each position, and with what weights. It is applied to a bank, to what its adapters read
# (T×B×H), and to what their outputs are added to (T×B×P).
Mixture = Callable[[Bank, Tensor, Tensor], Tensor]


def weighted(weights: Tensor, active: Sequence[int] | None = None) -> Mixture:
    """Adapters that are all computed."""
    return lambda bank, x, onto: bank(x, weights, active, onto)


def chosen(rows: AdapterRows, weights: Tensor, active: Sequence[int] | None = None) -> Mixture:
    """For each position the adapters that it chose, see :meth:`Bank.mix_chosen`."""
    return lambda bank, x, onto: bank.mix_chosen(x, rows, weights, active, onto)


def either(is_one: Tensor, one: Mixture, other: Mixture) -> Mixture:
    """One mixture in some positions, T×B×1 or 1×B×1, and another one in the others."""
    return lambda bank, x, onto: torch.where(is_one, one(bank, x, onto), other(bank, x, onto))


@dataclass
class RoutingBatch:
    """What routers may know of the batch that passes through a stack of layers, and what they leave.

    Attributes:
        padding_mask: B×T, True = pad; None for no padding, as in cached decoding.
        given_weights: B×D, or 1×D for all rows alike: routing weights that are known before the model runs. A row sums
            to one, or is zero throughout: no adapter.
        most_given: how many of a row may be above zero; None if that is not known.
        is_forced: B, rows in which the given weights take the place of a gate's; None for no row.
        incremental_state: fairseq's, in cached decoding.
        known_logits: 1×B×D, what gates add to their own logits: known before the layers run. None for nothing.
        gate_logits: filled by gate routers, one tensor a layer, before any temperature; not in cached decoding.
        mixture: of the layer that runs, where one router serves several banks.
    """

    padding_mask: Tensor | None = None
    given_weights: Tensor | None = None
    most_given: int | None = None
    is_forced: Tensor | None = None
    incremental_state: dict | None = None
    known_logits: Tensor | None = None
    gate_logits: list[Tensor] = field(default_factory=list)
    mixture: Mixture | None = None
    _chosen: tuple[AdapterRows, Tensor] | None = None

    @cached_property
    def positions(self) -> Positions:
        """Which positions are no padding, for all layers."""
        return Positions(self.padding_mask)

    @cached_property
    def most(self) -> int:
        """How many given weights of a row may be above zero; where that is not known, the host waits for them."""
        assert self.given_weights is not None
        return most_chosen(self.given_weights) if self.most_given is None else self.most_given

    def choose_given(self, x: Tensor, active: Sequence[int] | None = None) -> tuple[AdapterRows, Tensor]:
        """The given adapters of all positions of a T×B×H, and their weights, T·B×k; found once for all layers."""
        if self._chosen is None:
            assert self.given_weights is not None
            weights = self.given_weights if active is None else self.given_weights[:, active]
            self._chosen = choose(weights, x, self.most, weights.size(-1))
        return self._chosen

    @cached_property
    def active(self) -> list[int]:
        """The adapters with a given weight in any row, the first one if there is none; the host waits for them."""
        assert self.given_weights is not None
        return self.given_weights.ne(0).any(0).nonzero().squeeze(1).tolist() or [0]

    def force(self, weights: Tensor) -> Tensor:
        """The given weights in the rows that are forced, a gate's own in the others: T×B×D."""
        if self.is_forced is None:
            return weights
        assert self.given_weights is not None
        return torch.where(self.is_forced.unsqueeze(1), self.given_weights.to(weights), weights)


def most_chosen(given_weights: Tensor) -> int:
    """How many weights of a row are above zero at most; this has the host wait for the device."""
    return max(int(given_weights.ne(0).sum(-1).max()), 1)


class GivenRouter(nn.Module):
    """Weights given with the batch: one adapter of the sentence's domain, or those on a path of a domain tree.

    Only adapters with some weight are computed, and each only for its rows; of :data:`FEW` an accelerator computes all
    in a decoding step.

    Args:
        gathers: lay out no adapters that no row has, though this has the host wait for an accelerator: where an
            adapter's gradient must be none unless it takes part.
    """

    needs_given = True

    def __init__(self, gathers: bool = False):
        super().__init__()
        self.gathers = gathers

    def forward(self, x: Tensor, batch: RoutingBatch) -> Mixture:
        if batch.given_weights is None:
            raise ValueError("these adapters need to be told the domain or path of every sentence")
        num_adapters = batch.given_weights.size(-1)
        # Of rows that share all adapters in parts of their own no two are alike.
        if computes_all(x, num_adapters) or batch.most == num_adapters > 1:
            return weighted(batch.given_weights.unsqueeze(0))
        gathers = self.gathers and torch.is_grad_enabled()
        if (gathers or x.device.type == "cpu") and len(batch.active) <= batch.most:
            return weighted(batch.given_weights[:, batch.active].unsqueeze(0), batch.active)
        active = batch.active if gathers else None
        return chosen(*batch.choose_given(x, active), active)


def computes_all(x: Tensor, num_adapters: int) -> bool:
    """Whether all adapters are computed where few have a weight: T×B×H of a decoding step on an accelerator."""
    return x.device.type != "cpu" and len(x) == 1 and num_adapters <= FEW


class GateRouter(nn.Module):
    """Gated adapters: a learned gate mixes all adapters (Klimaszewski et al. 2023, §2.2.1, Eq. 2-3).

    ``weights = softmax(g / β)`` with ``g = W_g · mean(x)``. Projection and mean commute, so the D scores
    of every position are averaged rather than its H features: the same numbers, and a running state of D
    floats a sentence. Encoders average over the sentence, decoders over positions 1…t. What the batch knows of each
    sentence is added, or is all there is. Rows that the batch forces take its weights instead.

    A sparse gate computes the adapters of its largest weights alone, and lets these sum to one (Shazeer et al. 2017,
    §2.1, without their noise). Criterions still see all logits.

    Args:
        temperature: β.
        causal: average over the prefix (decoder) instead of the whole sequence (encoder).
        top_k: how many weights are kept; 0 for all.
        reads_states: whether there is a projection ``W_g``; without it the gate is what the batch knows.

    Attributes:
        weight: ``W_g``, D×H; None without it.
        guarded: rows of adapters that came when the others were settled. One takes part only where its logit is above
            all others'; elsewhere every number is the one of the settled adapters alone, bit for bit.
    """

    needs_given = False
    guarded: tuple[int, ...] = ()
    weight: nn.Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_adapters: int,
        temperature: float,
        causal: bool,
        top_k: int = 0,
        reads_states: bool = True,
    ):
        super().__init__()
        self.temperature, self.top_k = temperature, top_k
        self.causal = causal
        self.num_adapters = num_adapters
        # Even weights at the start.
        self.register_parameter("weight", nn.Parameter(torch.zeros(num_adapters, embed_dim)) if reads_states else None)
        self.running_mean = RunningMean() if causal and reads_states else None

    @property
    def row_names(self) -> tuple[str, ...]:
        return () if self.weight is None else ("weight",)

    def gate_logits(self, x: Tensor, batch: RoutingBatch) -> Tensor:
        """T×B×H → T×B×D for a causal router, else 1×B×D; float32."""
        known = batch.known_logits
        if self.weight is None:
            assert known is not None
            return known.expand(len(x) if self.causal else 1, -1, -1)
        if self.running_mean is not None:
            own = self.running_mean(self._in_order(self._scores(x)), batch.positions)
        else:
            own = self._in_order([sequence_mean(part, batch.positions) for part in self._scores(x)])
        return own if known is None else own + known

    def _scores(self, x: Tensor) -> list[Tensor]:
        """The projection of every position, T×B×D, or its parts for the settled and the guarded adapters."""
        assert self.weight is not None
        # The residual stream is not normalised here: autocast would round it, and make large values infinite.
        weight = self.weight.to(x.dtype)
        with without_autocast(x):
            # In products of their own: of which width one is may decide on the last bit.
            return [F.linear(x, weight[rows]) for rows in self._parts] if self.guarded else [F.linear(x, weight)]

    def weights(self, logits: Tensor) -> Tensor:
        """The routing weights of logits, …×D; rows sum to one."""
        return self._weights(logits / self.temperature)

    def _weights(self, scaled: Tensor) -> Tensor:
        """The weights of logits over β: …×D."""
        if self.guarded:
            scaled = scaled.masked_fill(self._loses(scaled), float("-inf"))
        return self._kept(scaled.softmax(-1))

    def is_sparse(self, num_adapters: int) -> bool:
        """Whether some of so many weights are left out."""
        return 0 < self.top_k < num_adapters

    def _kept(self, weights: Tensor) -> Tensor:
        """The largest weights of …×A, which sum to one again, with zero for the others."""
        if not self.is_sparse(weights.size(-1)):
            return weights
        largest, adapters = weights.topk(self.top_k, dim=-1)
        return torch.zeros_like(weights).scatter(-1, adapters, largest / largest.sum(-1, keepdim=True))

    def forward(self, x: Tensor, batch: RoutingBatch) -> Mixture:
        scaled = self._scaled_logits(x, batch)
        weights = batch.force(self._weights(scaled))
        most = self.top_k if batch.is_forced is None else max(self.top_k, batch.most)
        if not self.guarded:
            return self._mixture(x, weights, most, may_skip=batch.is_forced is not None)
        settled, guarded = self._parts
        alone = self._mixture(x, self._kept(scaled[..., settled].softmax(-1)), self.top_k, settled)
        is_other = ~self._loses(scaled)[..., guarded].all(-1, keepdim=True)
        if batch.is_forced is not None:
            is_other = is_other | batch.is_forced.unsqueeze(-1)
        if x.device.type == "cpu" and not bool(is_other.any()):
            return alone
        return either(is_other, self._mixture(x, weights, most), alone)

    def _mixture(
        self, x: Tensor, weights: Tensor, most: int, active: Sequence[int] | None = None, may_skip: bool = True
    ) -> Mixture:
        """What computes these weights, T×B×A; of a sparse gate so many of a position are above zero at most."""
        if not self.is_sparse(weights.size(-1)) or computes_all(x, self.num_adapters):
            return weighted(weights, active)
        if active is not None:  # numbered as all are
            everyone = weights.new_zeros(*weights.shape[:-1], self.num_adapters)
            weights = everyone.index_copy(-1, torch.tensor(active, device=x.device), weights)
        return chosen(*choose(weights, x, min(most, self.num_adapters), self.num_adapters, may_skip))

    def _scaled_logits(self, x: Tensor, batch: RoutingBatch) -> Tensor:
        """The logits over β, which are left in the batch where a criterion may want them."""
        if batch.incremental_state is None or self.running_mean is None:
            logits = self.gate_logits(x, batch)
            batch.gate_logits.append(logits)
            return logits / self.temperature
        scores = self._in_order(self._scores(x))
        own = self.running_mean.step(scores, batch.incremental_state, self.temperature)
        known = batch.known_logits
        return own if known is None else own.add(known, alpha=1 / self.temperature)

    def _loses(self, logits: Tensor) -> Tensor:
        """…×D: whether a guarded adapter takes no part."""
        settled, _ = self._parts
        loses = logits.le(logits[..., settled].amax(-1, keepdim=True)) | logits.lt(logits.amax(-1, keepdim=True))
        loses[..., settled] = False
        return loses

    @property
    def _parts(self) -> tuple[list[int], list[int]]:
        """The rows that are settled, and those that are guarded."""
        return [row for row in range(self.num_adapters) if row not in self.guarded], list(self.guarded)

    def _in_order(self, parts: list[Tensor]) -> Tensor:
        if len(parts) == 1:
            return parts[0]
        settled, guarded = self._parts
        order = sorted(range(self.num_adapters), key=(settled + guarded).__getitem__)
        return torch.cat(parts, -1)[..., order]
