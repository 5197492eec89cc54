"""What the graphs of the encoder and of a decoder step share: layers, adapters and gates.

Sizes: B sentences, S source positions, W hypotheses per sentence, P earlier positions of all hypotheses of a sentence,
N tokens in total (B·S or B·W), H features, h heads of width d, D adapters of width b, A of them in use, L layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_ext.models.adapter_transformer import AdapterTransformerModel
from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.modules.lora import LayerRouter
from fairseq_ext.modules.routers import GateRouter
from fairseq_ext.serve.graphs.graph import Graph, Value

# Far below any logit. Infinity would give NaN when subtracted from itself.
NEVER = -1e9
KEYS = (0, 2, 3, 1)  # permutation from B×T×h×d to B×h×d×T
_ACTIVATIONS: dict[str, Callable[[Value], Value]] = {
    "gelu": lambda x: x.graph.op("Gelu", x),
    "gelu_accurate": lambda x: x.graph.op("Gelu", x, approximate="tanh"),
    "gelu_fast": lambda x: x.graph.op("Gelu", x, approximate="tanh"),
    "tanh": lambda x: x.graph.op("Tanh", x),
    "swish": lambda x: x * x.graph.op("Sigmoid", x),
    "linear": lambda x: x,
}


class SideGraph:
    """Base class of the encoder and decoder graphs. Hidden states are N×H."""

    count: Value  # number of tokens so far, over which gates average
    last_logits: Value | None = None  # logits of the last layer's gate
    mixture: Value  # adapter weights of a layer with low-rank adapters on its linear layers

    def __init__(self, model: Any, side: Any, graph: Graph, length: str) -> None:
        self.model, self.side, self.graph = model, side, graph
        self.layers = list(side.layers.children())
        self.is_adapted = isinstance(model, AdapterTransformerModel)
        self.is_gated = self.is_adapted and not model.needs_domains
        self.known: Value | None = None  # gate logits that do not depend on hidden states
        self.gates: list[Value] = []  # gate weights by layer
        self.embedded = self.graph.input("embedded", "float", ["B", length, side.embed_tokens.embedding_dim])
        self.shape = self.graph.op("Shape", self.embedded, start=0, end=2)
        if self.is_adapted:
            # Adapters in use, and the weights of all adapters given by the caller.
            self.used = self.graph.input("used", "int", ["A"])
            self.number_used = self.graph.op("Shape", self.used)
            self.given = self.graph.input("given", "float", ["B", len(model.adapter_names)]).unsqueeze(1)
        if self.is_gated:  # 1 where the given weights replace those of the gates
            self.is_forced = self.graph.input("is_forced", "float", ["B", 1]).unsqueeze(1)

    def cut(self, x: Value, *sizes: int) -> Value:
        """Reshape N×… to B×T×sizes, where T is S or W."""
        return self.graph.op("Reshape", x, self.graph.concat(self.shape, sizes, axis=0))

    def embed(self, positions: Value) -> Value:
        """Complete the embeddings of tokens, given N positions or one: N×H."""
        side = self.side
        x = self.embedded.reshape(-1, side.embed_tokens.embedding_dim)
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

    def linear(self, x: Value, module: Any, added: Value | None = None, *, is_relu: bool = False) -> Value:
        """Apply a linear layer with its low-rank adapters to ``x`` or ``relu(x)``, and add the result to ``added``."""
        if is_relu and hasattr(module, "adapter"):
            x, is_relu = self.graph.op("Relu", x), False
        return self.beside(x, module, self.graph.linear(x, module.weight, module.bias, added, is_relu))

    def beside(self, x: Value, module: Any, onto: Value, scale: float = 1.0) -> Value:
        """Add the output of a linear layer's low-rank adapters for ``x``, times ``scale``, to ``onto``."""
        if not hasattr(module, "adapter"):
            return onto
        bank = module.adapter.bank
        hidden = self.graph.into_chosen(x, bank.down_weight, None, self.used)
        up = bank.up_weight * (bank.scale * scale)
        return self.graph.from_chosen(self.weighted(hidden, self.mixture), up, self.used, onto)

    def weighted(self, hidden: Value, weights: Value) -> Value:
        """Multiply each adapter's hidden units by its weight: N×A·b, and B×T×A or B×1×A → N×A·b."""
        blocks = self.graph.op("Reshape", hidden, self.graph.concat(self.shape, self.number_used, [-1], axis=0))
        return self.graph.op("Reshape", blocks * weights.unsqueeze(3), self.graph.op("Shape", hidden))

    def project(self, x: Value, *scaled: tuple[Any, float]) -> list[Value]:
        """Compute the outputs of linear layers, times a factor each, in one matrix product: N×H each."""
        weight = torch.cat([module.weight * scale for module, scale in scaled])
        zeros = torch.zeros(len(scaled[0][0].weight))
        bias = torch.cat([zeros if module.bias is None else module.bias * scale for module, scale in scaled])
        parts = self.graph.ops(
            "Split", len(scaled), self.graph.linear(x, weight, bias), axis=1, num_outputs=len(scaled)
        )
        return [self.beside(x, module, part, scale) for (module, scale), part in zip(scaled, parts, strict=True)]

    def project_self(self, x: Value, attention: Any) -> list[Value]:
        """Compute scaled queries, keys and values of self-attention: N×H each."""
        return self.project(
            x, (attention.q_proj, float(attention.scaling)), (attention.k_proj, 1.0), (attention.v_proj, 1.0)
        )

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
        name = str(self.side.cfg.activation_fn)
        inner = self.norm(x, layer.final_layer_norm) if layer.normalize_before else x
        hidden = self.linear(inner, layer.fc1)
        if name == "relu":
            x = self.linear(hidden, layer.fc2, x, is_relu=True)
        else:
            x = self.linear(_ACTIVATIONS[name](hidden), layer.fc2, x)
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
            x, result: N×H; weights: B×T×A or B×1×A
        """
        graph, width, used = self.graph, bank.embed_dim, self.used
        down, down_bias = bank.folded(bank._rows_of(None))
        normed = graph.op("LayerNormalization", x, torch.ones(width), torch.zeros(width), epsilon=1e-5)
        hidden = graph.op("Relu", graph.into_chosen(normed, down, down_bias, used))
        biases = weights @ graph.op("Gather", bank.up_bias, used)
        residual = (self.cut(x, width) + biases).reshape(-1, width)
        return graph.from_chosen(self.weighted(hidden, weights), bank.up_weight, used, residual)

    def weights(self, x: Value, router: Any) -> Value:
        """Return the weights of the adapters of a layer that are in use: B×T×A or B×1×A."""
        weights = self.given
        if isinstance(router, GateRouter):
            own = _gate_weights(self.gate_logits(x, router), router)
            weights = own * self.graph.op("Sub", 1.0, self.is_forced) + self.given * self.is_forced
            self.gates.append(weights)
        return self.graph.op("Gather", weights, self.used, axis=2)

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


def _gate_weights(logits: Value, router: GateRouter) -> Value:
    """Return the softmax of logits, without losing guarded adapters, restricted to the top k if set: …×D → …×D."""
    scaled = logits / float(router.temperature)
    if router.guarded:
        scaled = _without_losers(scaled, router)
    weights = scaled.softmax()
    if router.is_sparse(router.num_outputs):
        largest, _ = weights.graph.ops("TopK", 2, weights, [router.top_k], axis=-1)
        kept = weights * weights.graph.op("GreaterOrEqual", weights, largest.reduced("Min", -1)).cast("float")
        weights = kept / kept.reduced("Sum", -1)
    return weights.between(0, router.num_adapters, 2) if router.has_base else weights


def _without_losers(scaled: Value, router: GateRouter) -> Value:
    """Mask guarded adapters, except where one has the largest logit, above all adapters that are not guarded."""
    graph = scaled.graph
    is_guarded = np.zeros(router.num_outputs, bool)
    is_guarded[list(router.guarded)] = True
    most_settled = graph.op("Where", is_guarded, NEVER, scaled).reduced("Max", -1)
    most = scaled.reduced("Max", -1)
    wins = graph.op("Greater", scaled, most_settled) & graph.op("GreaterOrEqual", scaled, most)
    return graph.op("Where", graph.op("Or", wins, ~is_guarded), scaled, -np.inf)


def _position_table(side: Any) -> Tensor:
    """Return the embeddings of the positions of a sentence, numbered from 0."""
    positions, begin = side.embed_positions, side.padding_idx + 1
    if hasattr(positions, "weight"):
        return positions.weight[begin:]  # type: ignore[no-any-return]
    longest = side.max_source_positions if hasattr(side, "max_source_positions") else side.max_target_positions
    table: Tensor = positions.get_embedding(begin + longest + 1, positions.embedding_dim, positions.padding_idx)
    return table[begin:]
