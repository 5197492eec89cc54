"""A trained Transformer, with or without adapters, as two ONNX graphs: the encoder, and one step of the decoder.

The decoder computes one position of ``beam`` hypotheses of each sentence. Keys and values of earlier positions lie
where the step put them that computed them, whichever hypothesis goes on from which: a mask says which are a
hypothesis's own. So nothing is moved when hypotheses change places. The graph ends with the best tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.adapter_transformer import AdapterTransformerModel
from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.modules.lora import LayerRouter
from fairseq_ext.modules.routers import GateRouter
from fairseq_ext.modules.source_gate import LOGITS_A_WEIGHT, MULTIPLIER, SourceGate
from fairseq_ext.patches.models import OUTPUT_BIAS
from fairseq_ext.translators.graph import Graph, Value

# A number that no logit comes near; infinity less infinity would be no number.
_NEVER = np.array(-1e9, np.float32)
# The largest of so many tokens' probabilities are found first, then the largest of the blocks that hold these.
_BLOCK = 32
_BLOCKED_FROM = 2048
# Parts of fairseq's Transformer that no graph is made of.
_OTHER_PARTS = (
    *("attn_ln", "ffn_layernorm", "w_resid", "c_attn"),
    *("project_in_dim", "project_out_dim", "adaptive_softmax"),
)
_ACTIVATIONS: dict[str, Callable[[Value], Value]] = {
    "relu": lambda x: x.graph.op("Relu", x),
    "gelu": lambda x: x.graph.op("Gelu", x),
    "gelu_accurate": lambda x: x.graph.op("Gelu", x, approximate="tanh"),
    "gelu_fast": lambda x: x.graph.op("Gelu", x, approximate="tanh"),
    "tanh": lambda x: x.graph.op("Tanh", x),
    "swish": lambda x: x * x.graph.op("Sigmoid", x),
    "linear": lambda x: x,
}


def write_graphs(model: Any, encoder: Path, decoder: Path, *, is_int8: bool = False) -> None:
    """Write the two graphs of a model of fairseq's, which is in evaluation."""
    for side in (model.encoder, model.decoder):
        for part in (side, *_layers(side)):
            for name in _OTHER_PARTS:
                if getattr(part, name, None) is not None:
                    raise InputError(f"the model has {name}, of which no graph for translating can be made")
    with torch.no_grad():
        _EncoderGraph(model, is_int8).graph.write(encoder, "encoder")
        _DecoderGraph(model, is_int8).graph.write(decoder, "decoder")


def _layers(side: Any) -> list[Any]:
    return list(side.layers.children())


def _array(tensor: Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().float().cpu().numpy())


class _Side:
    """What encoder and decoder have in common. States are N×H, of N = B·T tokens."""

    count: Value  # of the tokens up to here

    def __init__(self, model: Any, side: Any, is_int8: bool) -> None:
        self.model = model
        self.side = side
        self.graph = Graph(is_int8)
        self.layers = _layers(side)
        self.is_adapted = isinstance(model, AdapterTransformerModel)
        self.is_gated = self.is_adapted and not model.needs_domains
        self.known: Value | None = None  # logits that do not depend on states
        self.gates: list[Value] = []  # weights by layer

    def read_tokens(self, name: str) -> Value:
        tokens = self.graph.input("tokens", "int", ["B", name])
        self.shape = self.graph.op("Shape", tokens)  # B and T
        return tokens

    def read_route(self) -> None:
        """Weights of the adapters that the caller gives, B×D, and in which rows a gate gives way to them, B×1."""
        if self.is_adapted:
            self.given = self.graph.input("given", "float", ["B", len(self.model.adapter_names)])
        if self.is_gated:
            self.is_forced = self.graph.input("is_forced", "float", ["B", 1])

    def cut(self, x: Value, *sizes: int) -> Value:
        """N×… → B×T×sizes."""
        return self.graph.op("Reshape", x, self.graph.concat(self.shape, np.array(sizes), axis=0))

    def embed(self, tokens: Value, positions: Value) -> Value:
        """N tokens, and N positions or one → N×H."""
        graph, side = self.graph, self.side
        x = graph.embed(tokens, graph.array(side.embed_tokens.weight, _array))
        if side.embed_scale != 1:
            x = x * float(side.embed_scale)
        if side.embed_positions is not None:
            x = x + graph.op("Gather", _position_table(side), positions)
        return x if side.layernorm_embedding is None else self.norm(x, side.layernorm_embedding)

    def norm(self, x: Value, norm: Any) -> Value:
        width = norm.normalized_shape[0]
        gain = np.ones(width, np.float32) if norm.weight is None else _array(norm.weight)
        offset = np.zeros(width, np.float32) if norm.bias is None else _array(norm.bias)
        return self.graph.op("LayerNormalization", x, gain, offset, epsilon=float(norm.eps))

    def linear(self, x: Value, module: Any, added: Value | None = None) -> Value:
        bias = None if module.bias is None else _array(module.bias)
        return self.beside(x, module, self.graph.linear(x, _array(module.weight), bias, added))

    def beside(self, x: Value, module: Any, onto: Value, scale: float = 1.0) -> Value:
        """What low-rank adapters add to what a linear layer makes of ``x``; it is multiplied by ``scale``."""
        if not hasattr(module, "adapter"):
            return onto
        bank = module.adapter.bank
        hidden = self.graph.linear(x, _array(bank.down_weight.flatten(0, 1)), None)
        up = _array(bank.up_weight.flatten(0, 1).t()) * np.float32(bank.scale * scale)
        return self.graph.linear(self.weighted(hidden, self.mixture), up, None, onto)

    def weighted(self, hidden: Value, weights: Value) -> Value:
        """Each adapter's part of what is inside a bank times its weight: N×D·b, and B×T×D or B×1×D → N×D·b."""
        blocks = self.cut(hidden, len(self.model.adapter_names), -1) * weights.unsqueeze(3)
        return self.graph.op("Reshape", blocks, self.graph.op("Shape", hidden))

    def queries(self, x: Value, attention: Any, modules: list[Any]) -> list[Value]:
        """Projections of the same states as one product; the first, of queries, is scaled as attention wants it."""
        scales = [np.float32(attention.scaling), *[np.float32(1)] * (len(modules) - 1)]
        weights = [_array(each.weight) * scale for each, scale in zip(modules, scales, strict=True)]
        biases = [
            np.zeros(len(each.weight), np.float32) if each.bias is None else _array(each.bias) * scale
            for each, scale in zip(modules, scales, strict=True)
        ]
        joined = self.graph.linear(x, np.concatenate(weights), np.concatenate(biases))
        parts = [joined]
        if len(modules) > 1:
            parts = self.graph.ops("Split", len(modules), joined, axis=1, num_outputs=len(modules))
        return [
            self.beside(x, each, part, float(scale)) for each, part, scale in zip(modules, parts, scales, strict=True)
        ]

    def heads(self, x: Value, attention: Any, order: tuple[int, ...] = (0, 2, 1, 3)) -> Value:
        """N×H → B×h×T×d, or in another order of B, T, h and d."""
        return self.graph.op("Transpose", self.cut(x, attention.num_heads, attention.head_dim), perm=order)

    def merge(self, x: Value, attention: Any) -> Value:
        """B×h×T×d → N×H."""
        return self.graph.op("Transpose", x, perm=(0, 2, 1, 3)).reshape(-1, attention.embed_dim)

    def around(self, x: Value, layer: Any, norm: Any, block: Callable[[Value], Value]) -> Value:
        """A block with its residual and its norm, which is before the block or behind both."""
        if layer.normalize_before:
            return x + block(self.norm(x, norm))
        return self.norm(x + block(x), norm)

    def feed_forward(self, x: Value, layer: Any) -> Value:
        """The second half of a layer, with its adapters where they belong."""
        activation = _ACTIVATIONS[str(self.side.cfg.activation_fn)]
        inner = self.norm(x, layer.final_layer_norm) if layer.normalize_before else x
        x = self.linear(activation(self.linear(inner, layer.fc1)), layer.fc2, x)
        if self.is_adapted and not isinstance(layer.adapter, LayerRouter):
            x = self.adapt(x, layer.adapter.bank, self.weights(x, layer.adapter.router))
        return x if layer.normalize_before else self.norm(x, layer.final_layer_norm)

    def begin(self, x: Value, layer: Any) -> None:
        """Find the mixture of a layer whose adapters are beside its linear layers."""
        if self.is_adapted and isinstance(layer.adapter, LayerRouter):
            self.mixture = self.weights(x, layer.adapter.router)

    def adapt(self, x: Value, bank: AdapterBank, weights: Value) -> Value:
        """``x + Σ_d w_d · up_d(relu(down_d(norm(x))))``.

        Shape:
            x, result: N×H; weights: B×T×D or B×1×D
        """
        graph = self.graph
        down, down_bias = bank.folded(bank._rows_of(None))
        ones, zeros = np.ones(bank.embed_dim, np.float32), np.zeros(bank.embed_dim, np.float32)
        normed = graph.op("LayerNormalization", x, ones, zeros, epsilon=1e-5)
        hidden = graph.op("Relu", graph.linear(normed, _array(down.flatten(0, 1)), _array(down_bias.flatten())))
        biases = weights @ _array(bank.up_bias)
        residual = (self.cut(x, bank.embed_dim) + biases).reshape(-1, bank.embed_dim)
        up = _array(bank.up_weight.flatten(0, 1).t())
        return graph.linear(self.weighted(hidden, weights), up, None, residual)

    def weights(self, x: Value, router: Any) -> Value:
        """The weights of the adapters behind a layer: B×T×D or B×1×D."""
        given = self.given.unsqueeze(1)
        if not isinstance(router, GateRouter):
            return given
        weights = self.gate_weights(self.gate_logits(x, router), router)
        forced = self.is_forced.unsqueeze(1)
        self.gates.append(weights * (1.0 - forced) + given * forced)
        return self.gates[-1]

    def gate_logits(self, x: Value, router: GateRouter) -> Value:
        """B×T×D or B×1×D."""
        logits = self.known
        if router.weight is not None:
            scores = self.cut(x @ _array(router.weight.t()), router.num_adapters)
            own = self.total(scores, router) / self.count
            logits = own if logits is None else own + logits
        assert logits is not None
        self.last_logits = logits
        return logits

    def total(self, scores: Value, router: GateRouter) -> Value:
        """The sum of the scores of all tokens up to here."""
        raise NotImplementedError

    def gate_weights(self, logits: Value, router: GateRouter) -> Value:
        """…×D → …×D: the softmax, without what is guarded and loses, and of that the largest alone."""
        scaled = logits / float(router.temperature)
        if router.guarded:
            scaled = self._without_losers(scaled, router)
        weights = scaled.softmax()
        if not router.is_sparse(router.num_adapters):
            return weights
        largest, _ = self.graph.ops("TopK", 2, weights, np.array([router.top_k]), axis=-1)
        kept = weights * self.graph.op("GreaterOrEqual", weights, largest.reduced("Min", -1)).as_float()
        return kept / kept.reduced("Sum", -1)

    def _without_losers(self, scaled: Value, router: GateRouter) -> Value:
        """Guarded adapters take part where theirs is the largest logit, above all settled ones."""
        graph = self.graph
        is_guarded = np.zeros(router.num_adapters, bool)
        is_guarded[list(router.guarded)] = True
        most_settled = graph.op("Where", is_guarded, _NEVER, scaled).reduced("Max", -1)
        most = scaled.reduced("Max", -1)
        wins = graph.op("Greater", scaled, most_settled) & graph.op("GreaterOrEqual", scaled, most)
        return graph.op("Where", graph.op("Or", wins, ~is_guarded), scaled, -np.inf)


class _EncoderGraph(_Side):
    """``tokens``, B×S, padded → what the decoder needs of them."""

    def __init__(self, model: Any, is_int8: bool) -> None:
        super().__init__(model, model.encoder, is_int8)
        graph, side = self.graph, self.side
        tokens = self.read_tokens("S")
        self.read_route()
        is_token = ~graph.op("Equal", tokens, side.padding_idx)
        numbers = is_token.as_int()
        self.keep = is_token.as_float().unsqueeze(2)  # B×S×1
        self.count = self.keep.reduced("Sum", 1)
        self.known = self._known_logits(tokens)
        self.mask = graph.op("Where", is_token, 0.0, _NEVER).unsqueeze(1, 2)  # B×1×1×S
        positions = graph.op("CumSum", numbers, 1) * numbers + side.padding_idx
        x = self.embed(tokens.reshape(-1), positions.reshape(-1)) * self.keep.reshape(-1, 1)
        for layer in self.layers:
            self.begin(x, layer)
            x = self.around(x, layer, layer.self_attn_layer_norm, partial(self._attend, layer.self_attn))
            x = self.feed_forward(x, layer)
        x = x if side.layer_norm is None else self.norm(x, side.layer_norm)
        self._tell_decoder(x)

    def _attend(self, attention: Any, x: Value) -> Value:
        query, key, value = self.queries(x, attention, [attention.q_proj, attention.k_proj, attention.v_proj])
        scores = self.heads(query, attention) @ self.heads(key, attention, (0, 2, 3, 1))
        mixed = (scores + self.mask).softmax() @ self.heads(value, attention)
        return self.linear(self.merge(mixed, attention), attention.out_proj)

    def _known_logits(self, tokens: Value) -> Value | None:
        """What the source's words tell all gates, B×1×D."""
        gate: SourceGate | None = getattr(self.side, "source_gate", None) if self.is_gated else None
        if gate is None:
            return None
        graph = self.graph
        is_text = ~graph.op("Equal", tokens, gate.ignored[0])
        for symbol in gate.ignored[1:]:
            is_text = is_text & ~graph.op("Equal", tokens, symbol)
        columns, counts = tokens, is_text
        if gate.num_pairs:
            (first, second), (is_first, is_second) = map(self._neighbours, (tokens, is_text))
            pairs = (first * MULTIPLIER + second) % gate.num_pairs + gate.num_tokens
            columns = graph.concat(tokens, pairs, axis=1)
            counts = graph.concat(is_text, is_first & is_second, axis=1)
        scores = graph.op("Gather", _array(gate.weight.t()), columns) * counts.as_float().unsqueeze(2)
        total = scores.reduced("Sum", 1)
        length = graph.op("Max", is_text.as_float().reduced("Sum", 1), 1.0)
        return total * (float(LOGITS_A_WEIGHT) / graph.op("Sqrt", length)).unsqueeze(2)

    def _neighbours(self, x: Value) -> tuple[Value, Value]:
        """Of B×S all but the last, and all but the first."""
        one, end, axis = np.array([1]), np.array([np.iinfo(np.int64).max]), np.array([1])
        return (
            self.graph.op("Slice", x, np.array([0]), np.array([-1]), axis),
            self.graph.op("Slice", x, one, end, axis),
        )

    def total(self, scores: Value, router: GateRouter) -> Value:
        return (scores * self.keep).reduced("Sum", 1)

    def _tell_decoder(self, x: Value) -> None:
        graph = self.graph
        graph.output("mask", self.mask)
        for number, layer in enumerate(_layers(self.model.decoder)):
            attention = layer.encoder_attn
            key, value = self.linear(x, attention.k_proj), self.linear(x, attention.v_proj)
            graph.output(f"source_key_{number}", self.heads(key, attention, (0, 2, 3, 1)))
            graph.output(f"source_value_{number}", self.heads(value, attention))
        if self.is_gated:
            known = self.last_logits if self.side.tells_decoder else self.known
            if known is not None:
                graph.output("known", known)
            graph.output("gates", graph.concat(*self.gates, axis=1))  # B×L×D


class _DecoderGraph(_Side):
    """``tokens``, B×W, the last ones of W hypotheses each → the best next ones."""

    def __init__(self, model: Any, is_int8: bool) -> None:
        super().__init__(model, model.decoder, is_int8)
        graph, side = self.graph, self.side
        tokens = self.read_tokens("W")
        step = graph.input("step", "int", [1])
        columns = graph.input("columns", "int", ["B*W", "E"])
        most = graph.input("most", "int", [1])
        self.source_mask = graph.input("mask", "float", ["B", 1, 1, "S"])
        self.past_mask = graph.input("past_mask", "float", ["B", 1, "W", "P"])
        self.read_route()
        self._read_gates(step)
        self.shares: list[Value] = []  # of the source in each layer, averaged over heads: B×W×S
        x = self.embed(tokens.reshape(-1), step + np.array([side.padding_idx + 1]))
        for number, layer in enumerate(self.layers):
            self.begin(x, layer)
            x = self.around(x, layer, layer.self_attn_layer_norm, partial(self._attend, layer.self_attn, number))
            x = self.around(x, layer, layer.encoder_attn_layer_norm, partial(self._read, layer.encoder_attn, number))
            x = self.feed_forward(x, layer)
        for name, values in (("gates", self.gates), ("new_totals", self.totals)):
            if values:  # B×W×L×D
                graph.output(name, graph.concat(*[value.unsqueeze(2) for value in values], axis=2))
        graph.output("attention", graph.op("Mean", *self.shares))
        x = x if side.layer_norm is None else self.norm(x, side.layer_norm)
        self._choose(self._log_probabilities(x), columns, most)

    def _attend(self, attention: Any, number: int, x: Value) -> Value:
        """To a hypothesis's own earlier positions, and to this one."""
        graph, heads, width = self.graph, attention.num_heads, attention.head_dim
        past_key = graph.input(f"key_{number}", "float", ["B", heads, width, "P"])
        past_value = graph.input(f"value_{number}", "float", ["B", heads, "P", width])
        query, key, value = self.queries(x, attention, [attention.q_proj, attention.k_proj, attention.v_proj])
        query, key, value = (self.heads(each, attention) for each in (query, key, value))  # B×h×W×d
        past = query @ past_key + self.past_mask
        now = (query * key).reduced("Sum", 3)
        shares = graph.concat(now, past, axis=-1).softmax()
        one, end, axis = np.array([1]), np.array([np.iinfo(np.int64).max]), np.array([3])
        of_now = graph.op("Slice", shares, np.array([0]), one, axis)
        of_past = graph.op("Slice", shares, one, end, axis)
        mixed = of_past @ past_value + of_now * value
        graph.output(f"new_key_{number}", key)
        graph.output(f"new_value_{number}", value)
        return self.linear(self.merge(mixed, attention), attention.out_proj)

    def _read(self, attention: Any, number: int, x: Value) -> Value:
        """The source."""
        graph, heads, width = self.graph, attention.num_heads, attention.head_dim
        key = graph.input(f"source_key_{number}", "float", ["B", heads, width, "S"])
        value = graph.input(f"source_value_{number}", "float", ["B", heads, "S", width])
        [query] = self.queries(x, attention, [attention.q_proj])
        shares = (self.heads(query, attention) @ key + self.source_mask).softmax()
        self.shares.append(shares.reduced("Mean", 1, keep=False))
        return self.linear(self.merge(shares @ value, attention), attention.out_proj)

    def _read_gates(self, step: Value) -> None:
        graph = self.graph
        self.totals: list[Value] = []
        if not self.is_gated:
            return
        number, routers = len(self.model.adapter_names), [layer.adapter.router for layer in self.layers]
        if self.model.encoder.tells_decoder or self.model.encoder.source_gate is not None:
            self.known = graph.input("known", "float", ["B", 1, number])
        if routers[0].weight is not None:
            totals = graph.input("totals", "float", ["B", "W", len(routers), number])
            split = graph.ops("Split", len(routers), totals, axis=2, num_outputs=len(routers))
            squeezed = [graph.op("Squeeze", total, np.array([2])) for total in split]
            self.earlier = dict(zip(routers, squeezed, strict=True))
            self.count = (step + np.array([1])).as_float()

    def total(self, scores: Value, router: GateRouter) -> Value:
        self.totals.append(self.earlier[router] + scores)
        return self.totals[-1]

    def _log_probabilities(self, x: Value) -> Value:
        """N×H → N×V."""
        graph, projection = self.graph, self.side.output_projection
        weight = graph.array(projection.weight, _array)
        bias = getattr(self.side, OUTPUT_BIAS, projection.bias)
        logits = graph.linear(x, weight, None if bias is None else _array(bias))
        return graph.op("LogSoftmax", logits, axis=-1)

    def _choose(self, scores: Value, columns: Value, most: Value) -> None:
        """The ``most`` best of N×V with their numbers, N×most, and those of the columns that are asked for."""
        graph, size = self.graph, len(self.side.dictionary)
        graph.output("asked", graph.op("GatherElements", scores, columns, axis=1))
        if size < _BLOCKED_FROM or size % _BLOCK:
            best, numbers = graph.ops("TopK", 2, scores, graph.op("Min", most, np.array([size])), axis=1)
        else:
            # Block j is of the tokens j, j + V/32, …: the maximum of all blocks is one of rows.
            blocks = size // _BLOCK
            largest = scores.reshape(-1, _BLOCK, blocks).reduced("Max", 1, keep=False)
            _, chosen = graph.ops("TopK", 2, largest, most, axis=1)  # N×most
            steps = (np.arange(_BLOCK) * blocks)[None, :, None]
            members = graph.op("Flatten", chosen.unsqueeze(1) + steps)  # N×32·most
            best, places = graph.ops("TopK", 2, graph.op("GatherElements", scores, members, axis=1), most, axis=1)
            numbers = graph.op("GatherElements", members, places, axis=1)
        graph.output("best", best)
        graph.output("best_tokens", numbers, "int")


def _position_table(side: Any) -> np.ndarray:
    """The vectors of all positions that a sentence can have, counted as fairseq counts them."""
    positions = side.embed_positions
    if hasattr(positions, "weight"):
        return _array(positions.weight)
    longest = side.max_source_positions if hasattr(side, "max_source_positions") else side.max_target_positions
    return _array(
        positions.get_embedding(side.padding_idx + longest + 2, positions.embedding_dim, positions.padding_idx)
    )
