"""All steps of a recurrent layer, with or without gates between two domains.

Autograd would make each step's share of every weight's gradient, and add them up. Here one product over all steps gives
it. Products are in the weights' type, all else in the states', so that under autocast weights are cast once a sequence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class GatedWords(NamedTuple):
    """A gate on the words that a layer reads.

    Attributes:
        given: to the gate, but for the contexts' share.
        weight: of the contexts in the gate.
        own: words where the gate is open.
        general: words where it is shut.
        input_weight: of the layer's inputs.

    Shape:
        given, own, general: T×B×E; weight: E×H; input_weight: 3H×E
    """

    given: Tensor
    weight: Tensor
    own: Tensor
    general: Tensor
    input_weight: Tensor


class GatedContexts(NamedTuple):
    """A gate on the contexts that steps begin with.

    Attributes:
        given: to the gate, but for the contexts' share.
        weight: of the contexts in the gate.
        general: contexts where it is shut.

    Shape:
        given, general: T×B×H; weight: H×H
    """

    given: Tensor
    weight: Tensor
    general: Tensor


def all_steps(
    projected: Tensor,
    initial: Tensor,
    weights: tuple[Tensor, Tensor],
    words: GatedWords | None = None,
    contexts: GatedContexts | None = None,
) -> Tensor:
    """The states after each step of :class:`~fairseq_ext.modules.gru.GRU`.

    Args:
        projected: what the inputs give, or of gated words the bias alone.
        weights: U_u with U_r, and U.

    Shape:
        projected: T×B×3H; initial: B×H; weights: 2H×H, H×H; result: T×B×H
    """
    dtype, hidden_dim = initial.dtype, initial.size(-1)
    gates, candidates = (_Product(weight) for weight in weights)
    if words is not None:
        word_gate, inputs = _Product(words.weight), _Product(words.input_weight)
        word_gates, own, general = (each.to(dtype).unbind() for each in (words.given, words.own, words.general))
    if contexts is not None:
        context_gate = _Product(contexts.weight)
        context_gates, others = (each.to(dtype).unbind() for each in (contexts.given, contexts.general))
    state, states = initial, []
    for t, given in enumerate(projected.to(dtype).unbind()):
        begin = state
        if words is not None:
            gate = word_gate(word_gates[t], state).sigmoid()
            given = inputs(given, torch.lerp(general[t], own[t], gate))
        if contexts is not None:
            begin = torch.lerp(others[t], state, context_gate(context_gates[t], state).sigmoid())
        of_gates, of_candidate = given.tensor_split([2 * hidden_dim], -1)
        update, reset = gates(of_gates, begin).sigmoid().chunk(2, -1)
        candidate = candidates(of_candidate, reset * begin).tanh()
        state = torch.lerp(begin, candidate, update)
        states.append(state)
    return torch.stack(states)


class _Product:
    """``total + x @ weight.t()`` at every step."""

    def __init__(self, weight: Tensor):
        self.weight = weight
        self.num_steps = 0
        # From the last step to the first, what is multiplied and the gradient of what came out.
        self.inputs: list[Tensor] = []
        self.grads: list[Tensor] = []

    def __call__(self, total: Tensor, x: Tensor) -> Tensor:
        self.num_steps += 1
        result: Tensor = _AddProduct.apply(total, x, self.weight, self, self.num_steps == 1)
        return result


class _AddProduct(torch.autograd.Function):
    """A step's product. The first step's backward pass is the last one, and gives the weight's gradient."""

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
