"""Graph of one step of a Transformer's decoder, for several hypotheses per sentence.

Cached keys and values are never reordered when hypotheses are: a mask selects those that belong to a hypothesis. An
SSRU has a cell per hypothesis instead. The sizes are those of :mod:`fairseq_ext.serve.graphs.side_graph`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fairseq_ext.modules.ssru import SSRU
from fairseq_ext.serve.graphs.graph import Graph, Value
from fairseq_ext.serve.graphs.side_graph import SideGraph


class DecoderGraph(SideGraph):
    """Graph of one decoder step: ``embedded``, B×W×H, the last tokens of all hypotheses → ``states``, N×H."""

    def __init__(self, model: Any, graph: Graph) -> None:
        super().__init__(model, model.decoder, graph, "W")
        side = self.side
        step = graph.input("step", "int", [1])
        self.source_mask = graph.input("mask", "float", ["B", 1, 1, "S"])
        if not all(isinstance(layer.self_attn, SSRU) for layer in self.layers):
            self.past_mask = graph.input("past_mask", "float", ["B", 1, "W", "P"])
        self.totals: list[Value] = []  # sums of gate scores, by layer
        if self.is_gated:
            self._read_gates(step)
        self.shares: list[Value] = []  # attention to the source by layer, averaged over heads: B×W×S
        x = self.embed(step)
        for number, layer in enumerate(self.layers):
            self.begin(x, layer)
            before = self._recur if isinstance(layer.self_attn, SSRU) else self._attend
            x = self.around(x, layer, layer.self_attn_layer_norm, partial(before, layer.self_attn, number))
            x = self.around(x, layer, layer.encoder_attn_layer_norm, partial(self._read, layer.encoder_attn, number))
            x = self.feed_forward(x, layer)
        for name, values in (("gates", self.gates), ("new_totals", self.totals)):
            if values:  # B×W×L×D
                graph.output(name, graph.concat(*[value.unsqueeze(2) for value in values], axis=2))
        graph.output("attention", graph.op("Mean", *self.shares))
        graph.output("states", self.norm(x, side.layer_norm))

    def _recur(self, cell: SSRU, number: int, x: Value) -> Value:
        """Update the SSRU's cells: ``c = f · c + (1 − f) · candidate``."""
        graph, width = self.graph, cell.head_dim
        past = graph.input(f"cell_{number}", "float", ["B", "W", width]).reshape(-1, width)
        forget, candidate = self.project(x, (cell.forget, 1.0), (cell.candidate, 1.0))
        cells = graph.op("Sub", past, candidate) * graph.op("Sigmoid", forget) + candidate
        graph.output(f"new_cell_{number}", self.cut(cells, width))
        return graph.op("Relu", cells)

    def _attend(self, attention: Any, number: int, x: Value) -> Value:
        """Attend to the earlier positions of the same hypothesis, and to the current one."""
        graph, heads, width = self.graph, attention.num_heads, attention.head_dim
        past_key = graph.input(f"key_{number}", "float", ["B", heads, width, "P"])
        past_value = graph.input(f"value_{number}", "float", ["B", heads, "P", width])
        query, key, value = (self.heads(each, attention) for each in self.project_self(x, attention))  # B×h×W×d
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
