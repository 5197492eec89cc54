"""GRU whose reset gate acts before the matrix product, alone or with gates between two domains.

Autograd would compute the gradient of every weight at each step and sum them; here one product over all steps computes
it. Products are in the dtype of the weights, all else in that of the states; under autocast, weights are cast once per
sequence.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fairseq_ext.modules.autocast import autocast_dtype


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
        self,
        inputs: Tensor,
        initial: Tensor,
        word_gate: _GateSteps | None = None,
        context_gate: _GateSteps | None = None,
    ) -> Tensor:
        dtype = autocast_dtype(inputs)
        gates, candidates = (_Product(part.weight.to(dtype)) for part in (self.gates, self.candidate))
        if word_gate is None:
            # The projected inputs do not depend on the states, so one product computes all steps.
            projected = self.input(inputs)
        else:
            projected = self.input.bias.expand(*inputs.shape[:2], -1)
            words, read = inputs.to(initial.dtype).unbind(), _Product(self.input.weight.to(dtype))
        state, states = initial, []
        for t, given in enumerate(projected.to(initial.dtype).unbind()):
            begin = state
            if word_gate is not None:
                given = read(given, word_gate.mix(t, state, words[t]))
            if context_gate is not None:
                begin = context_gate.mix(t, state, state)
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
        known, dtype = (words, general_words, general_states), initial.dtype
        word_gate = None if self.word_gate is None else _GateSteps(self.word_gate, known, general_words, dtype)
        context_gate = None
        if self.context_gate is not None:
            context_gate = _GateSteps(self.context_gate, known, general_states, dtype)
        return self.gru(words, initial, word_gate, context_gate)


class _GateSteps:
    """A gate at all steps, partly computed from x, x* and h* (``known``) before the first step."""

    def __init__(self, gate: DomainGate, known: tuple[Tensor, ...], general: Tensor, dtype: torch.dtype):
        given = gate.given(torch.cat(known, -1))
        self.add_context = _Product(gate.context.weight.to(given.dtype))
        self.given, self.general = (each.to(dtype).unbind() for each in (given, general))

    def mix(self, t: int, context: Tensor, own: Tensor) -> Tensor:
        """Return ``g ⊙ own + (1 − g) ⊙ general`` at step t, where g also depends on ``context``."""
        return torch.lerp(self.general[t], own, self.add_context(self.given[t], context).sigmoid())


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
