"""Graph of a Transformer's encoder, which also computes what the decoder reads of the source at every step.

The sizes are those of :mod:`fairseq_ext.serve.graphs.side_graph`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fairseq_ext.modules.source_gate import LOGITS_A_WEIGHT, MULTIPLIER, SourceGate
from fairseq_ext.serve.graphs.graph import Graph, Value
from fairseq_ext.serve.graphs.side_graph import KEYS, NEVER, SideGraph


class EncoderGraph(SideGraph):
    """Graph of the encoder: padded ``tokens``, B×S → inputs of the decoder."""

    def __init__(self, model: Any, graph: Graph) -> None:
        super().__init__(model, model.encoder, graph, "S")
        side = self.side
        self.tokens = graph.input("tokens", "int", ["B", "S"])
        is_token = ~graph.op("Equal", self.tokens, side.padding_idx)
        numbers = is_token.cast("int")
        self.keep = is_token.cast("float").unsqueeze(2)  # B×S×1
        self.count = self.keep.reduced("Sum", 1)
        if self.is_gated and side.source_gate is not None:
            self.known = self._logits_of_words(side.source_gate)
        self.mask = graph.op("Where", is_token, 0.0, NEVER).unsqueeze(1, 2)  # B×1×1×S
        # Padding, which comes last, has the position of the last token.
        positions = graph.op("Sub", graph.op("CumSum", numbers, 1), 1)
        x = self.embed(positions.reshape(-1)) * self.keep.reshape(-1, 1)
        for layer in self.layers:
            self.begin(x, layer)
            x = self.around(x, layer, layer.self_attn_layer_norm, partial(self._attend, layer.self_attn))
            x = self.feed_forward(x, layer)
        self._tell_decoder(self.norm(x, side.layer_norm))

    def _attend(self, attention: Any, x: Value) -> Value:
        query, key, value = self.project_self(x, attention)
        scores = self.heads(query, attention) @ self.heads(key, attention, KEYS)
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
        attentions = [layer.encoder_attn for layer in self.model.decoder.layers.children()]
        # Scale keys once here instead of the queries at every decoder step.
        keys = [(attention.k_proj, float(attention.scaling)) for attention in attentions]
        parts = self.project(x, *keys, *((attention.v_proj, 1.0) for attention in attentions))
        for number, attention in enumerate(attentions):
            graph.output(f"source_key_{number}", self.heads(parts[number], attention, KEYS))
            graph.output(f"source_value_{number}", self.heads(parts[number + len(attentions)], attention))
        if self.is_gated:
            known = self.last_logits if self.side.tells_decoder else self.known
            if known is not None:
                graph.output("known", known)
            graph.output("gates", graph.concat(*self.gates, axis=1))  # B×L×D
