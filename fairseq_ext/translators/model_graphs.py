"""Export of a Transformer, with or without adapters, to two ONNX graphs: the encoder, and one step of the decoder.

The decoder computes one position of ``beam`` hypotheses per sentence. Cached keys and values are never reordered when
hypotheses are: a mask selects those that belong to a hypothesis. The graph returns the best tokens.

Sizes: B sentences, S source positions, W hypotheses per sentence, P earlier positions of all hypotheses of a sentence,
N tokens in total (B·S or B·W), H features, h heads of width d, D adapters of width b, L layers, V symbols.
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

# Far below any logit. Infinity would give NaN when subtracted from itself.
_NEVER = -1e9
# Top-k in two stages: first over the maxima of blocks of this many tokens, then over the tokens of the best blocks.
_BLOCK = 32
_BLOCKED_FROM = 2048
# Parts of fairseq's Transformer that are not supported.
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
_KEYS = (0, 2, 3, 1)  # permutation from B×T×h×d to B×h×d×T


def write_graphs(model: Any, encoder: Path, decoder: Path, *, is_int8: bool = False) -> None:
    """Write the two graphs of a fairseq model in evaluation mode."""
    for side in (model.encoder, model.decoder):
        for part in (side, *side.layers.children()):
            for name in _OTHER_PARTS:
                if getattr(part, name, None) is not None:
                    raise InputError(f"the model has {name}, which an export does not support")
    with torch.no_grad():
        _EncoderGraph(model, is_int8).graph.write(encoder, "encoder")
        _DecoderGraph(model, is_int8).graph.write(decoder, "decoder")


class _Side:
    """Base class of the encoder and decoder graphs. Hidden states are N×H."""

    count: Value  # number of tokens so far, over which gates average
    last_logits: Value | None = None  # logits of the last layer's gate
    mixture: Value  # adapter weights of a layer with low-rank adapters on its linear layers

    def __init__(self, model: Any, side: Any, is_int8: bool, length: str) -> None:
        self.model, self.side, self.graph = model, side, Graph(is_int8)
        self.layers = list(side.layers.children())
        self.is_adapted = isinstance(model, AdapterTransformerModel)
        self.is_gated = self.is_adapted and not model.needs_domains
        self.known: Value | None = None  # gate logits that do not depend on hidden states
        self.gates: list[Value] = []  # gate weights by layer
        self.tokens = self.graph.input("tokens", "int", ["B", length])
        self.shape = self.graph.op("Shape", self.tokens)
        if self.is_adapted:  # adapter weights given by the caller
            self.given = self.graph.input("given", "float", ["B", len(model.adapter_names)]).unsqueeze(1)
        if self.is_gated:  # 1 where the given weights replace those of the gates
            self.is_forced = self.graph.input("is_forced", "float", ["B", 1]).unsqueeze(1)

    def cut(self, x: Value, *sizes: int) -> Value:
        """Reshape N×… to B×T×sizes, where T is S or W."""
        return self.graph.op("Reshape", x, self.graph.concat(self.shape, sizes, axis=0))

    def embed(self, positions: Value) -> Value:
        """Embed the tokens, given N positions or one: N×H."""
        side = self.side
        x = self.graph.embed(self.tokens.reshape(-1), side.embed_tokens.weight)
        if side.embed_scale != 1:
            x = x * float(side.embed_scale)
        if side.embed_positions is not None:
            x = x + self.graph.op("Gather", _position_table(side), positions)
        return self.norm(x, side.layernorm_embedding)

    def norm(self, x: Value, norm: Any) -> Value:
        """Apply a layer norm, if there is one."""
        if norm is None:
            return x
        return self.graph.op("LayerNormalization", x, norm.weight, norm.bias, epsilon=float(norm.eps))

    def linear(self, x: Value, module: Any, added: Value | None = None) -> Value:
        return self.beside(x, module, self.graph.linear(x, module.weight, module.bias, added))

    def beside(self, x: Value, module: Any, onto: Value, scale: float = 1.0) -> Value:
        """Add the output of a linear layer's low-rank adapters for ``x``, times ``scale``, to ``onto``."""
        if not hasattr(module, "adapter"):
            return onto
        bank = module.adapter.bank
        hidden = self.graph.linear(x, bank.down_weight.flatten(0, 1), None)
        up = bank.up_weight.flatten(0, 1).t() * (bank.scale * scale)
        return self.graph.linear(self.weighted(hidden, self.mixture), up, None, onto)

    def weighted(self, hidden: Value, weights: Value) -> Value:
        """Multiply each adapter's hidden units by its weight: N×D·b, and B×T×D or B×1×D → N×D·b."""
        blocks = self.cut(hidden, len(self.model.adapter_names), -1) * weights.unsqueeze(3)
        return self.graph.op("Reshape", blocks, self.graph.op("Shape", hidden))

    def project(self, x: Value, attention: Any) -> list[Value]:
        """Compute scaled queries, keys and values of self-attention in one matrix product: N×H each."""
        modules = (attention.q_proj, attention.k_proj, attention.v_proj)
        scales = (float(attention.scaling), 1.0, 1.0)
        scaled = list(zip(modules, scales, strict=True))
        weight = torch.cat([module.weight * scale for module, scale in scaled])
        bias = torch.cat([module.bias * scale for module, scale in scaled])
        parts = self.graph.ops("Split", 3, self.graph.linear(x, weight, bias), axis=1, num_outputs=3)
        return [self.beside(x, module, part, scale) for (module, scale), part in zip(scaled, parts, strict=True)]

    def heads(self, x: Value, attention: Any, order: tuple[int, ...] = (0, 2, 1, 3)) -> Value:
        """Split heads: N×H → B×h×T×d, or another permutation of B, T, h and d."""
        return self.graph.op("Transpose", self.cut(x, attention.num_heads, attention.head_dim), perm=order)

    def merge(self, x: Value, attention: Any) -> Value:
        """Merge heads and apply the output projection: B×h×T×d → N×H."""
        merged = self.graph.op("Transpose", x, perm=(0, 2, 1, 3)).reshape(-1, attention.embed_dim)
        return self.linear(merged, attention.out_proj)

    def around(self, x: Value, layer: Any, norm: Any, block: Callable[[Value], Value]) -> Value:
        """Apply a block with its residual connection and its norm (pre-norm or post-norm)."""
        if layer.normalize_before:
            return x + block(self.norm(x, norm))
        return self.norm(x + block(x), norm)

    def feed_forward(self, x: Value, layer: Any) -> Value:
        """Apply the feed-forward block of a layer and its adapters."""
        activation = _ACTIVATIONS[str(self.side.cfg.activation_fn)]
        inner = self.norm(x, layer.final_layer_norm) if layer.normalize_before else x
        x = self.linear(activation(self.linear(inner, layer.fc1)), layer.fc2, x)
        if self.is_adapted and not isinstance(layer.adapter, LayerRouter):
            x = self.adapt(x, layer.adapter.bank, self.weights(x, layer.adapter.router))
        return x if layer.normalize_before else self.norm(x, layer.final_layer_norm)

    def begin(self, x: Value, layer: Any) -> None:
        """Compute the adapter weights of a layer with low-rank adapters on its linear layers."""
        if self.is_adapted and isinstance(layer.adapter, LayerRouter):
            self.mixture = self.weights(x, layer.adapter.router)

    def adapt(self, x: Value, bank: AdapterBank, weights: Value) -> Value:
        """Compute ``x + Σ_d w_d · up_d(relu(down_d(norm(x))))``.

        Shape:
            x, result: N×H; weights: B×T×D or B×1×D
        """
        graph, width = self.graph, bank.embed_dim
        down, down_bias = bank.folded(bank._rows_of(None))
        normed = graph.op("LayerNormalization", x, torch.ones(width), torch.zeros(width), epsilon=1e-5)
        hidden = graph.op("Relu", graph.linear(normed, down.flatten(0, 1), down_bias.flatten()))
        residual = (self.cut(x, width) + weights @ bank.up_bias).reshape(-1, width)
        return graph.linear(self.weighted(hidden, weights), bank.up_weight.flatten(0, 1).t(), None, residual)

    def weights(self, x: Value, router: Any) -> Value:
        """Return the weights of a layer's adapters: B×T×D or B×1×D."""
        if not isinstance(router, GateRouter):
            return self.given
        own = self.gate_weights(self.gate_logits(x, router), router)
        self.gates.append(own * self.graph.op("Sub", 1.0, self.is_forced) + self.given * self.is_forced)
        return self.gates[-1]

    def gate_logits(self, x: Value, router: GateRouter) -> Value:
        """Return gate logits: the mean score of all tokens so far, plus the known logits; B×T×D or B×1×D."""
        logits = self.known
        if router.weight is not None:
            own = self.total(self.cut(x @ router.rows.t(), router.num_outputs)) / self.count
            logits = own if logits is None else own + logits
        assert logits is not None
        self.last_logits = logits
        return logits

    def total(self, scores: Value) -> Value:
        """Return the sum of the scores of all tokens so far."""
        raise NotImplementedError

    def gate_weights(self, logits: Value, router: GateRouter) -> Value:
        """Return the softmax of logits, without losing guarded adapters, restricted to the top k if set: …×D → …×D."""
        scaled = logits / float(router.temperature)
        if router.guarded:
            scaled = self._without_losers(scaled, router)
        weights = scaled.softmax()
        if router.is_sparse(router.num_outputs):
            largest, _ = self.graph.ops("TopK", 2, weights, [router.top_k], axis=-1)
            kept = weights * self.graph.op("GreaterOrEqual", weights, largest.reduced("Min", -1)).cast("float")
            weights = kept / kept.reduced("Sum", -1)
        return weights.between(0, router.num_adapters, 2) if router.has_base else weights

    def _without_losers(self, scaled: Value, router: GateRouter) -> Value:
        """Mask guarded adapters, except where one has the largest logit, above all adapters that are not guarded."""
        graph = self.graph
        is_guarded = np.zeros(router.num_outputs, bool)
        is_guarded[list(router.guarded)] = True
        most_settled = graph.op("Where", is_guarded, _NEVER, scaled).reduced("Max", -1)
        most = scaled.reduced("Max", -1)
        wins = graph.op("Greater", scaled, most_settled) & graph.op("GreaterOrEqual", scaled, most)
        return graph.op("Where", graph.op("Or", wins, ~is_guarded), scaled, -np.inf)


class _EncoderGraph(_Side):
    """Graph of the encoder: padded ``tokens``, B×S → inputs of the decoder."""

    def __init__(self, model: Any, is_int8: bool) -> None:
        super().__init__(model, model.encoder, is_int8, "S")
        graph, side = self.graph, self.side
        is_token = ~graph.op("Equal", self.tokens, side.padding_idx)
        numbers = is_token.cast("int")
        self.keep = is_token.cast("float").unsqueeze(2)  # B×S×1
        self.count = self.keep.reduced("Sum", 1)
        if self.is_gated and side.source_gate is not None:
            self.known = self._logits_of_words(side.source_gate)
        self.mask = graph.op("Where", is_token, 0.0, _NEVER).unsqueeze(1, 2)  # B×1×1×S
        positions = graph.op("CumSum", numbers, 1) * numbers + side.padding_idx
        x = self.embed(positions.reshape(-1)) * self.keep.reshape(-1, 1)
        for layer in self.layers:
            self.begin(x, layer)
            x = self.around(x, layer, layer.self_attn_layer_norm, partial(self._attend, layer.self_attn))
            x = self.feed_forward(x, layer)
        self._tell_decoder(self.norm(x, side.layer_norm))

    def _attend(self, attention: Any, x: Value) -> Value:
        query, key, value = self.project(x, attention)
        scores = self.heads(query, attention) @ self.heads(key, attention, _KEYS)
        return self.merge((scores + self.mask).softmax() @ self.heads(value, attention), attention)

    def _logits_of_words(self, gate: SourceGate) -> Value:
        """Return the logits that the source words contribute to all gates, B×1×D."""
        graph = self.graph
        is_text = ~graph.op("Equal", self.tokens, gate.ignored[0])
        for symbol in gate.ignored[1:]:
            is_text = is_text & ~graph.op("Equal", self.tokens, symbol)
        columns, counts = self.tokens, is_text
        if gate.num_pairs:
            first, second = columns.between(0, -1, 1), columns.between(1, None, 1)
            pairs = (first * MULTIPLIER + second) % gate.num_pairs + gate.num_tokens
            columns = graph.concat(columns, pairs, axis=1)
            counts = graph.concat(counts, counts.between(0, -1, 1) & counts.between(1, None, 1), axis=1)
        scores = graph.op("Gather", gate.rows.t(), columns) * counts.cast("float").unsqueeze(2)
        length = graph.op("Max", is_text.cast("float").reduced("Sum", 1), 1.0)
        scale = graph.op("Div", float(LOGITS_A_WEIGHT), graph.op("Sqrt", length))
        return scores.reduced("Sum", 1) * scale.unsqueeze(2)

    def total(self, scores: Value) -> Value:
        return (scores * self.keep).reduced("Sum", 1)

    def _tell_decoder(self, x: Value) -> None:
        graph = self.graph
        graph.output("mask", self.mask)
        for number, layer in enumerate(self.model.decoder.layers.children()):
            attention = layer.encoder_attn
            # Scale keys once here instead of the queries at every decoder step.
            key = self.linear(x, attention.k_proj) * float(attention.scaling)
            graph.output(f"source_key_{number}", self.heads(key, attention, _KEYS))
            graph.output(f"source_value_{number}", self.heads(self.linear(x, attention.v_proj), attention))
        if self.is_gated:
            known = self.last_logits if self.side.tells_decoder else self.known
            if known is not None:
                graph.output("known", known)
            graph.output("gates", graph.concat(*self.gates, axis=1))  # B×L×D


class _DecoderGraph(_Side):
    """Graph of one decoder step: ``tokens``, B×W, the last tokens of all hypotheses → the best next tokens."""

    def __init__(self, model: Any, is_int8: bool) -> None:
        super().__init__(model, model.decoder, is_int8, "W")
        graph, side = self.graph, self.side
        step = graph.input("step", "int", [1])
        self.source_mask = graph.input("mask", "float", ["B", 1, 1, "S"])
        self.past_mask = graph.input("past_mask", "float", ["B", 1, "W", "P"])
        self.totals: list[Value] = []  # sums of gate scores, by layer
        if self.is_gated:
            self._read_gates(step)
        self.shares: list[Value] = []  # attention to the source by layer, averaged over heads: B×W×S
        x = self.embed(step + [side.padding_idx + 1])
        for number, layer in enumerate(self.layers):
            self.begin(x, layer)
            x = self.around(x, layer, layer.self_attn_layer_norm, partial(self._attend, layer.self_attn, number))
            x = self.around(x, layer, layer.encoder_attn_layer_norm, partial(self._read, layer.encoder_attn, number))
            x = self.feed_forward(x, layer)
        for name, values in (("gates", self.gates), ("new_totals", self.totals)):
            if values:  # B×W×L×D
                graph.output(name, graph.concat(*[value.unsqueeze(2) for value in values], axis=2))
        graph.output("attention", graph.op("Mean", *self.shares))
        projection = side.output_projection
        bias = getattr(side, OUTPUT_BIAS, projection.bias)
        logits = graph.linear(self.norm(x, side.layer_norm), projection.weight, bias)
        self._choose(graph.op("LogSoftmax", logits, axis=-1))

    def _attend(self, attention: Any, number: int, x: Value) -> Value:
        """Attend to the earlier positions of the same hypothesis, and to the current one."""
        graph, heads, width = self.graph, attention.num_heads, attention.head_dim
        past_key = graph.input(f"key_{number}", "float", ["B", heads, width, "P"])
        past_value = graph.input(f"value_{number}", "float", ["B", heads, "P", width])
        query, key, value = (self.heads(each, attention) for each in self.project(x, attention))  # B×h×W×d
        past = query @ past_key + self.past_mask
        now = (query * key).reduced("Sum", 3)
        shares = graph.concat(now, past, axis=-1).softmax()
        mixed = shares.between(1, None, 3) @ past_value + shares.between(0, 1, 3) * value
        graph.output(f"new_key_{number}", key)
        graph.output(f"new_value_{number}", value)
        return self.merge(mixed, attention)

    def _read(self, attention: Any, number: int, x: Value) -> Value:
        """Attend to the source."""
        graph, heads, width = self.graph, attention.num_heads, attention.head_dim
        key = graph.input(f"source_key_{number}", "float", ["B", heads, width, "S"])
        value = graph.input(f"source_value_{number}", "float", ["B", heads, "S", width])
        query = self.heads(self.linear(x, attention.q_proj), attention)
        shares = (query @ key + self.source_mask).softmax()
        self.shares.append(shares.reduced("Mean", 1, keep=False))
        return self.merge(shares @ value, attention)

    def _read_gates(self, step: Value) -> None:
        """Add the inputs of gates: logits from the source, and sums of the scores of earlier tokens."""
        graph, encoder = self.graph, self.model.encoder
        number, depth = self.model.gates[0].num_outputs, len(self.layers)
        if encoder.tells_decoder or encoder.source_gate is not None:
            self.known = graph.input("known", "float", ["B", 1, number])
        if self.layers[0].adapter.router.weight is not None:
            totals = graph.input("totals", "float", ["B", "W", depth, number])
            self.earlier = iter(graph.ops("Split", depth, totals, axis=2, num_outputs=depth))
            self.count = (step + [1]).cast("float")

    def total(self, scores: Value) -> Value:
        self.totals.append(self.graph.op("Squeeze", next(self.earlier), [2]) + scores)
        return self.totals[-1]

    def _choose(self, scores: Value) -> None:
        """Output the ``most`` best of N×V scores with their tokens, N×most, and the scores of requested columns."""
        graph, size = self.graph, len(self.side.dictionary)
        columns = graph.input("columns", "int", ["B*W", "E"])
        most = graph.input("most", "int", [1])
        graph.output("asked", graph.op("GatherElements", scores, columns, axis=1))
        if size < _BLOCKED_FROM or size % _BLOCK:
            best, numbers = graph.ops("TopK", 2, scores, graph.op("Min", most, [size]), axis=1)
        else:
            # Block j has the tokens j, j + V/32, …, so that block maxima are an elementwise maximum of rows.
            blocks = size // _BLOCK
            largest = scores.reshape(-1, _BLOCK, blocks).reduced("Max", 1, keep=False)
            _, chosen = graph.ops("TopK", 2, largest, most, axis=1)  # N×most
            steps = (np.arange(_BLOCK) * blocks)[None, :, None]
            members = graph.op("Flatten", chosen.unsqueeze(1) + steps)  # N×32·most
            best, places = graph.ops("TopK", 2, graph.op("GatherElements", scores, members, axis=1), most, axis=1)
            numbers = graph.op("GatherElements", members, places, axis=1)
        graph.output("best", best)
        graph.output("best_tokens", numbers, "int")


def _position_table(side: Any) -> Tensor:
    """Return the embeddings of all positions of a sentence, numbered as in fairseq."""
    positions = side.embed_positions
    if hasattr(positions, "weight"):
        return positions.weight  # type: ignore[no-any-return]
    longest = side.max_source_positions if hasattr(side, "max_source_positions") else side.max_target_positions
    size = side.padding_idx + longest + 2
    return positions.get_embedding(size, positions.embedding_dim, positions.padding_idx)  # type: ignore[no-any-return]
