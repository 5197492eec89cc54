"""All steps of a recurrent layer, with or without gates between two domains, and their gradients, written out.

Autograd would make each step's share of every weight's gradient, and add them up. Here the way back through the steps
finds only what the step before needs, and then one product over all steps gives each weight's gradient. Products are in
the weights' type, all else in the states', so that under autocast weights are cast once a sequence.
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
        initial: the state before the first step.
        weights: U_u with U_r, and U.
        words: gated ones, if any.
        contexts: gated ones, if any.

    Shape:
        projected: T×B×3H; initial: B×H; weights: 2H×H, H×H; result: T×B×H
    """
    of_words = words or (None,) * len(GatedWords._fields)
    of_contexts = contexts or (None,) * len(GatedContexts._fields)
    states: Tensor = _AllSteps.apply(
        initial, projected, of_words[0], of_contexts[0], *weights, *of_words[1:], *of_contexts[1:]
    )
    return states


class _AllSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, initial: Tensor, *inputs: Tensor | None) -> Tensor:  # type: ignore[override]
        # The steps write over what is given to them.
        values = [None if given is None else given.to(initial.dtype, copy=True) for given in inputs[:3]]
        of_units, of_words, of_contexts = values
        assert of_units is not None
        states = initial.new_empty(*of_units.shape[:2], initial.size(-1))
        before = torch.empty_like(states)
        layer = _Layer(before, of_units, of_words, of_contexts, *inputs[3:])
        state = initial
        for t in range(len(states)):
            state = layer.step(t, state, states[t])
        ctx.save_for_backward(initial, states, before, *values, *inputs[3:])
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, after: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        initial, states, *of_layer = ctx.saved_tensors
        layer = _Layer(*of_layer)
        layer.turn(torch.cat([initial.unsqueeze(0), states[:-1]]))
        gradient = torch.zeros_like(initial)
        for t in reversed(range(len(after))):
            gradient = layer.back(t, gradient + after[t])
        return gradient, *layer.gradients()


class _Layer:
    """The steps of units and of the gates before them, in the order of :class:`_AllSteps`'s inputs."""

    def __init__(
        self, before: Tensor, values: Tensor, of_words: Tensor | None, of_contexts: Tensor | None, *given: Any
    ):
        gates, candidate, word_weight, own, general_words, input_weight, context_weight, general_contexts = given
        self.units = _Units(values, before, gates, candidate)
        self.words = self.contexts = None
        if of_words is not None:
            self.words = _WordGate(of_words, word_weight, general_words, own, input_weight)
        if of_contexts is not None:
            self.contexts = _Gate(of_contexts, context_weight, general_contexts)

    def step(self, t: int, state: Tensor, result: Tensor) -> Tensor:
        if self.words is not None:
            self.words.feed(t, state, self.units.values[t])
        begin = state if self.contexts is None else self.contexts.step(t, state, state)
        return self.units.step(t, begin, result)

    def turn(self, states: Tensor) -> None:
        """Make ready for the way back.

        Shape:
            states: T×B×H, before each step
        """
        self.units.turn()
        if self.words is not None:
            self.words.turn(self.words.own)
        if self.contexts is not None:
            self.contexts.turn(states)
        self._states = states

    def back(self, t: int, after: Tensor) -> Tensor:
        before = self.units.back(t, after)
        if self.contexts is not None:
            before = self.contexts.back(t, before).add_(self.contexts.of_own[t])
        if self.words is not None:
            before = before.add_(self.words.back_from(t, self.units.gradient[t]))
        return before

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Those of all inputs but the initial state, at the end of the way back."""
        words, contexts = self.words, self.contexts
        of_words: tuple[Tensor | None, ...] = (None,) * 4
        of_contexts: tuple[Tensor | None, ...] = (None,) * 2
        if words is not None:
            of_input = words.input_gradient(self.units.gradient)
            of_words = words.weight_gradient(self._states), words.of_own, words.of_general, of_input
        if contexts is not None:
            of_contexts = contexts.weight_gradient(self._states), contexts.of_general
        given = (None if gate is None else gate.gradient for gate in (words, contexts))
        return self.units.gradient, *given, *self.units.weight_gradients(), *of_words, *of_contexts


class _Units:
    """Gated recurrent units; ``values`` become u, r and h̃, ``before`` the states that steps begin with."""

    def __init__(self, values: Tensor, before: Tensor, gates: Tensor, candidate: Tensor):
        self.values = values
        self.before = before
        self.gates = gates
        self.candidate = candidate
        self._hidden_dim = before.size(-1)

    def step(self, t: int, state: Tensor, result: Tensor) -> Tensor:
        self.before[t] = state
        gates, candidate = self.values[t].tensor_split([2 * self._hidden_dim], -1)
        update, reset = _add_product(gates, state, self.gates.t()).sigmoid_().chunk(2, -1)
        _add_product(candidate, reset * state, self.candidate.t()).tanh_()
        return torch.lerp(state, candidate, update, out=result)

    def turn(self) -> None:
        update, self._reset, candidate = self.values.chunk(3, -1)
        self._kept = 1 - update
        self._of_candidate = update * (1 - candidate.square())
        self._of_update = (candidate - self.before) * update * self._kept
        self._of_reset = self.before * self._reset * (1 - self._reset)
        self.gradient = torch.empty_like(self.values)

    def back(self, t: int, after: Tensor) -> Tensor:
        """From the gradient of the state after a step to that of the one before; ``gradient[t]`` is the inputs'."""
        gradient = self.gradient[t]
        update, reset, candidate = gradient.chunk(3, -1)
        torch.mul(after, self._of_update[t], out=update)
        torch.mul(after, self._of_candidate[t], out=candidate)
        of_product = _product(candidate, self.candidate)
        torch.mul(of_product, self._of_reset[t], out=reset)
        before = torch.addcmul(after * self._kept[t], of_product, self._reset[t])
        return _add_product(before, gradient[:, : 2 * self._hidden_dim], self.gates)

    def weight_gradients(self) -> tuple[Tensor, Tensor]:
        gates, candidate = self.gradient.tensor_split([2 * self._hidden_dim], -1)
        of_candidate = _weight_gradient(candidate, self._reset * self.before, self.candidate)
        return _weight_gradient(gates, self.before, self.gates), of_candidate


class _Gate:
    """A gate between two domains; ``values`` become how far it is open."""

    def __init__(self, values: Tensor, weight: Tensor, general: Tensor):
        self.values = values
        self.weight = weight
        self.general = general

    def step(self, t: int, own: Tensor, state: Tensor) -> Tensor:
        gate = _add_product(self.values[t], state, self.weight.t()).sigmoid_()
        return torch.lerp(self.general[t], own, gate)

    def turn(self, own: Tensor) -> None:
        self._of_gate = (own - self.general) * self.values * (1 - self.values)
        self.gradient, self.of_own, self.of_general = (torch.empty_like(self.values) for _ in range(3))

    def back(self, t: int, after: Tensor) -> Tensor:
        """From the gradient of what a step lets through to that of the state that opens the gate."""
        torch.mul(after, self.values[t], out=self.of_own[t])
        torch.sub(after, self.of_own[t], out=self.of_general[t])
        return _product(torch.mul(after, self._of_gate[t], out=self.gradient[t]), self.weight)

    def weight_gradient(self, states: Tensor) -> Tensor:
        return _weight_gradient(self.gradient, states, self.weight)


class _WordGate(_Gate):
    """A gate on words, and what these give to the units."""

    def __init__(self, values: Tensor, weight: Tensor, general: Tensor, own: Tensor, input_weight: Tensor):
        super().__init__(values, weight, general)
        self.own = own
        self.input_weight = input_weight

    def feed(self, t: int, state: Tensor, inputs: Tensor) -> None:
        _add_product(inputs, self.step(t, self.own[t], state), self.input_weight.t())

    def back_from(self, t: int, of_inputs: Tensor) -> Tensor:
        return self.back(t, _product(of_inputs, self.input_weight))

    def input_gradient(self, of_inputs: Tensor) -> Tensor:
        return _weight_gradient(of_inputs, torch.lerp(self.general, self.own, self.values), self.input_weight)


def _product(x: Tensor, weight: Tensor) -> Tensor:
    return (x.to(weight.dtype) @ weight).to(x.dtype)


def _add_product(total: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    return total.addmm_(x, weight) if x.dtype == weight.dtype else total.add_(_product(x, weight))


def _weight_gradient(outputs: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
    """From the gradients of what a product gave, T×B×N, and what was multiplied, T×B×K, to N×K."""
    return outputs.flatten(0, 1).to(weight.dtype).t() @ inputs.flatten(0, 1).to(weight.dtype)
