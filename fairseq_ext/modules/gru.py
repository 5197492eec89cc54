"""GRUs whose reset gate acts before the matrix product, and their combinations with word vectors of a second domain.

Autograd would compute the gradient of every weight at each step and sum them; here one product over all steps computes
it. Products are in the dtype of the weights, all else in that of the states; under autocast, weights are cast once per
sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fairseq_ext.modules.autocast import autocast_dtype
from fairseq_ext.modules.combinations import Combination

# Returns ``g ⊙ own + (1 − g) ⊙ general`` at step t, for t, the context on which the gate g also depends, and ``own``.
Mixer = Callable[[int, Tensor, Tensor], Tensor]


class GRU(nn.Module):
    """A layer of gated recurrent units (Zhang et al., 2016, Eq. 4).

    ::

        u = σ(W_u x + U_u h + b_u)
        r = σ(W_r x + U_r h + b_r)
        h̃ = tanh(W x + U (r ⊙ h) + b)
        h' = (1 − u) ⊙ h + u ⊙ h̃

    ``torch.nn.GRU`` resets after the product, ``r ⊙ (U h)``, and its update gate weights the old state, not the new.

    Shape:
        inputs: T×B×E; initial: B×H; result: T×B×H, the states after each step
    """

    def __init__(self, input_dim: int, hidden_dim: int):
        super().__init__()
        self.input = nn.Linear(input_dim, 3 * hidden_dim)  # W_u, W_r, W
        self.gates = nn.Linear(hidden_dim, 2 * hidden_dim, bias=False)  # U_u, U_r
        self.candidate = nn.Linear(hidden_dim, hidden_dim, bias=False)  # U

    def forward(
        self, inputs: Tensor, initial: Tensor, mix_words: Mixer | None = None, mix_contexts: Mixer | None = None
    ) -> Tensor:
        dtype = autocast_dtype(inputs)
        gates, candidates = (_Product(part.weight.to(dtype)) for part in (self.gates, self.candidate))
        if mix_words is None:
            # The projected inputs do not depend on the states, so one product computes all steps.
            projected = self.input(inputs)
        else:
            projected = self.input.bias.expand(*inputs.shape[:2], -1)
            words, read = inputs.to(initial.dtype).unbind(), _Product(self.input.weight.to(dtype))
        state, states = initial, []
        for t, given in enumerate(projected.to(initial.dtype).unbind()):
            begin = state
            if mix_words is not None:
                given = read(given, mix_words(t, state, words[t]))
            if mix_contexts is not None:
                begin = mix_contexts(t, state, state)
            of_gates, of_candidate = given.tensor_split([2 * initial.size(-1)], -1)
            update, reset = gates(of_gates, begin).sigmoid().chunk(2, -1)
            candidate = candidates(of_candidate, reset * begin).tanh()
            state = torch.lerp(begin, candidate, update)
            states.append(state)
        return torch.stack(states)


class DomainGate(nn.Module):
    """Gate that sets how much of each unit comes from the target domain (Zhang et al., 2016, Eq. 13 and 15).

    ``g = σ(W x + U h + W* x* + U* h* + b)``
    """

    def __init__(self, embed_dim: int, vector_dim: int, hidden_dim: int, gated_dim: int):
        super().__init__()
        self.given = nn.Linear(embed_dim + vector_dim + hidden_dim, gated_dim)  # W, W*, U*
        self.context = nn.Linear(hidden_dim, gated_dim, bias=False)  # U

    def mixer(self, known: tuple[Tensor, ...], general: Tensor, dtype: torch.dtype) -> Mixer:
        """Compute what depends on x, x* and h* (``known``) at all steps, and return the function of single steps."""
        given = self.given(torch.cat(known, -1))
        add_context = _Product(self.context.weight.to(given.dtype))
        of_known, of_general = (each.to(dtype).unbind() for each in (given, general))
        return lambda t, context, own: torch.lerp(of_general[t], own, add_context(of_known[t], context).sigmoid())


class GatedGRU(nn.Module):
    """A GRU with a gate on its words, on its contexts, or on both (Zhang et al., 2016, §3.3: WVG, CVG, DAGRU).

    ::

        word gate:     x' = u ⊙ x + (1 − u) ⊙ x*                 (Eq. 14)
        context gate:  h' = r ⊙ h + (1 − r) ⊙ h*                 (Eq. 16)
        h_t = GRU(x' or x, h' or h)

    The contexts h* of the general domain come from a separate GRU. They do not depend on this one, so h* and its part
    of the gates are computed for all steps in advance.

    Shape:
        words: T×B×E; general_words: T×B×E*; general_states: T×B×H, h* before each step; initial: B×H; result: T×B×H
    """

    def __init__(self, embed_dim: int, vector_dim: int, hidden_dim: int, gates_words: bool, gates_contexts: bool):
        super().__init__()
        self.gru = GRU(embed_dim, hidden_dim)
        widths = embed_dim, vector_dim, hidden_dim
        self.word_gate = DomainGate(*widths, embed_dim) if gates_words else None
        self.context_gate = DomainGate(*widths, hidden_dim) if gates_contexts else None

    def forward(self, words: Tensor, general_words: Tensor, general_states: Tensor, initial: Tensor) -> Tensor:
        known = (words, general_words, general_states)
        sides = ((self.word_gate, general_words), (self.context_gate, general_states))
        mixers = [None if gate is None else gate.mixer(known, general, initial.dtype) for gate, general in sides]
        return self.gru(words, initial, *mixers)


class DomainAdaptedGRU(nn.Module):
    """GRUs from word vectors of two domains to the contexts that predict the next words (Zhang et al., 2016, §3).

    Shape:
        words: T×B×E; general_words: T×B×E*; initial: 2×B×H, h and h* before the first step; result: T×B×C, where C is
        ``output_dim``, and 2×B×H, the states after the last step. If the combination does not use a vector, its
        width is 0 or its state stays unchanged.
    """

    def __init__(self, combination: Combination, embed_dim: int, vector_dim: int, hidden_dim: int):
        super().__init__()
        self.combination = combination
        self.gru: GRU | GatedGRU
        if combination.has_gates:
            self.gru = GatedGRU(
                embed_dim, vector_dim, hidden_dim, combination.words == "gate", combination.gates_contexts
            )
        else:
            self.gru = GRU(self._input_dim(embed_dim, vector_dim), hidden_dim)
        self.general_gru = GRU(vector_dim, hidden_dim) if combination.has_general_contexts else None
        self.context_weight = (
            nn.Parameter(torch.empty(hidden_dim).uniform_(-0.1, 0.1)) if combination.weights_contexts else None
        )
        self.hidden_dim = hidden_dim
        self.output_dim = 2 * hidden_dim if combination.contexts == "concatenation" else hidden_dim

    def _input_dim(self, embed_dim: int, vector_dim: int) -> int:
        if self.combination.words == "concatenation":
            return vector_dim + embed_dim
        return vector_dim if self.combination.words == "general" else embed_dim

    def forward(self, words: Tensor, general_words: Tensor, initial: Tensor) -> tuple[Tensor, Tensor]:
        own, general = initial
        if self.general_gru is not None:
            # h* does not depend on h, so all its steps can be computed first.
            general_states = self.general_gru(general_words, general)
            before = torch.cat([general.unsqueeze(0), general_states[:-1]])
            general = general_states[-1]
        if isinstance(self.gru, GatedGRU):
            contexts = states = self.gru(words, general_words, before, own)
        else:  # Eq. 7, 8
            contexts = states = self.gru(_combined(self.combination.words, words, general_words), own)
        if self.combination.contexts != "own":  # Eq. 9 to 12
            weighted = general_states if self.context_weight is None else self.context_weight * general_states
            contexts = _combined(self.combination.contexts, states, weighted)
        return contexts, torch.stack([states[-1], general])


def _combined(how: str, own: Tensor, general: Tensor) -> Tensor:
    """Combine vectors of both domains as a combination says."""
    if how == "concatenation":
        return torch.cat([general, own], -1)
    if how == "sum":
        return general + own
    return general if how == "general" else own


class _Product:
    """``total + x @ weight.t()`` at every step, with one weight gradient for all steps."""

    def __init__(self, weight: Tensor):
        self.weight = weight
        self.num_steps = 0
        # Inputs and output gradients, from the last step to the first.
        self.inputs: list[Tensor] = []
        self.grads: list[Tensor] = []

    def __call__(self, total: Tensor, x: Tensor) -> Tensor:
        self.num_steps += 1
        result: Tensor = _AddProduct.apply(total, x, self.weight, self, self.num_steps == 1)
        return result


class _AddProduct(torch.autograd.Function):
    """The product of one step. The backward pass of the first step runs last and computes the weight's gradient."""

    @staticmethod
    def forward(ctx: Any, total: Tensor, x: Tensor, weight: Tensor, product: _Product, is_first: bool) -> Tensor:  # type: ignore[override]
        x = x.to(weight.dtype)
        ctx.product, ctx.is_first = product, is_first
        ctx.save_for_backward(x, weight)
        if total.dtype == weight.dtype:
            return torch.addmm(total, x, weight.t())
        return total + (x @ weight.t()).to(total.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (x, weight), product = ctx.saved_tensors, ctx.product
        low = grad.to(weight.dtype)
        product.inputs.append(x)
        product.grads.append(low)
        of_weight = None
        if ctx.is_first:
            of_weight = torch.cat(product.grads).t() @ torch.cat(product.inputs)
            product.grads, product.inputs = [], []
        return grad, (low @ weight).to(grad.dtype), of_weight, None, None
