"""Topics on top of a language model: transformations of hidden states, and a mixture of softmaxes.

The memory use of the mixture does not grow with the number of topics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

OfTokens = Callable[[Tensor, Tensor], Tensor]
ALL = slice(None)


class Affine(nn.Module):
    """``F(h, z) = h·(I + A_z) + b_z``, with ``A_z`` and ``b_z`` initialised to zero."""

    def __init__(self, embed_dim: int, num_topics: int):
        super().__init__()
        # Z×H×H, transposed as in nn.Linear, so that all topics are one projection H → Z·H.
        self.matrix = nn.Parameter(torch.zeros(num_topics, embed_dim, embed_dim))
        self.offset = nn.Parameter(torch.zeros(num_topics, embed_dim))

    def forward(self, hidden: Tensor, topics: slice = ALL) -> Tensor:
        matrix, offset = self.matrix[topics], self.offset[topics]
        moves = F.linear(hidden, matrix.flatten(0, 1), offset.flatten()).unflatten(-1, matrix.shape[:2])
        return hidden.unsqueeze(-2) + moves


class Multiplication(nn.Module):
    """``F(h, z) = h ⊙ (1 + g_z)``, with ``g_z`` initialised to zero."""

    def __init__(self, embed_dim: int, num_topics: int):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(num_topics, embed_dim))

    def forward(self, hidden: Tensor, topics: slice = ALL) -> Tensor:
        return hidden.unsqueeze(-2) * (1 + self.gain[topics])


class Addition(nn.Module):
    """``F(h, z) = (1 − ω_z)·h + ω_z·g_z``, ``g_z`` initialised to a standard normal and ``ω_z`` to zero."""

    def __init__(self, embed_dim: int, num_topics: int):
        super().__init__()
        self.goal = nn.Parameter(torch.randn(num_topics, embed_dim))
        self.omega = nn.Parameter(torch.zeros(num_topics, 1))

    def forward(self, hidden: Tensor, topics: slice = ALL) -> Tensor:
        hidden = hidden.unsqueeze(-2)
        return hidden + self.omega[topics] * (self.goal[topics] - hidden)


TRANSFORMATIONS = {"affine": Affine, "multiplication": Multiplication, "addition": Addition}


class TopicSteering(nn.Module):
    """Z topics that transform hidden states, plus topic 0, the identity (Topic Aware Transformer, §3.5).

    ``π = softmax(LayerNorm(h)·W_Z)`` are the topic weights (Eq. 4), ``F(h, z)`` is the state moved to topic z (Eq. 5).
    The rows of ``embeddings`` are the columns of ``W_Z``.

    Every transformation starts as ``F(h, z) = h``. The paper's ``A_z`` and, for products, ``g_z`` are therefore stored
    as differences from the identity, so that weight decay draws them to the base and half precision keeps small
    changes. For the sum, this requires ω = 0 at the start. In the paper ω is constant, so topics cannot start as the
    base; here each topic learns its ω. ``W_Z`` is initialised so that π differs between states; otherwise equal topics
    would get equal gradients and stay equal.

    Shape:
        hidden: …×H; result: …×(Z+1)×H, ``F(h, z)`` of all topics
    """

    def __init__(self, embed_dim: int, num_topics: int, transformation: str = "affine"):
        super().__init__()
        self.num_topics = num_topics
        self.norm = nn.LayerNorm(embed_dim)
        # This scale makes the scores of normalised states standard normal.
        self.embeddings = nn.Parameter(torch.randn(num_topics + 1, embed_dim) * embed_dim**-0.5)
        self.transformation = TRANSFORMATIONS[transformation](embed_dim, num_topics)

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.cat([hidden.unsqueeze(-2), self.transformation(hidden)], dim=-2)

    def steer(self, hidden: Tensor, topic: int) -> Tensor:
        """Return ``F(h, z)`` of one topic: …×H → …×H."""
        if topic == 0:
            return hidden
        moved: Tensor = self.transformation(hidden, slice(topic - 1, topic))
        return moved.squeeze(-2)

    def log_weights(self, hidden: Tensor) -> Tensor:
        """Return log π in at least float32: …×H → …×(Z+1)."""
        scores = F.linear(self.norm(hidden), self.embeddings)
        return scores.log_softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))

    def weights(self, hidden: Tensor) -> Tensor:
        """Return π: …×H → …×(Z+1), rows sum to one."""
        return self.log_weights(hidden).exp()


class MixtureOfSoftmaxes(nn.Module):
    """``P(x) = Σ_z π_z · softmax(F(h, z)·W_V)[x]`` (Topic Aware Transformer, Eq. 2 and 4).

    The cheap form averages the states instead: ``softmax(Σ_z π_z·F(h, z)·W_V)``. As W_V is linear, this is the softmax
    of the averaged logits, with a single product with W_V. A single softmax also suffices if there is only topic 0 or
    if a topic is forced.

    Args:
        average_states: whether to use the cheap form.
        chunk_size: number of rows of logits in memory at a time, one per token and softmax.
        output_weight: V×H, copied into a parameter; None for no separate output embedding.

    Shape:
        hidden: N×H; output_weight, W_V transposed: V×H; targets: N
    """

    def __init__(
        self,
        steering: TopicSteering,
        average_states: bool = False,
        chunk_size: int = 1024,
        output_weight: Tensor | None = None,
    ):
        super().__init__()
        self.steering = steering
        self.average_states = average_states
        self.chunk_size = chunk_size
        own = None if output_weight is None else nn.Parameter(output_weight.detach().clone())
        self.register_parameter("output_weight", own)

    def components(self, hidden: Tensor, topic: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the log weights (N×K) and the states (N×K×H) of the K softmaxes to mix."""
        if self._num_softmaxes(topic) > 1:
            return self.steering.log_weights(hidden), self.steering(hidden)
        if topic is None and self.steering.num_topics:
            weights = self.steering.weights(hidden).to(hidden.dtype)
            states = weights.unsqueeze(1) @ self.steering(hidden)
        else:
            states = self.steering.steer(hidden, topic or 0).unsqueeze(1)
        return states.new_zeros(states.shape[:2]), states

    def scores(self, hidden: Tensor, output_weight: Tensor, topic: int | None = None) -> Tensor:
        """Return N×V scores whose softmax is the mixture: log probabilities, or the logits of a single softmax."""
        # One product per chunk of tokens reads W_V once for all topics.
        chunks = hidden.split(self._tokens_in_chunk(topic))
        return torch.cat([mixed_scores(*self.components(chunk, topic), output_weight) for chunk in chunks])

    def log_prob_sum(self, hidden: Tensor, targets: Tensor, output_weight: Tensor, topic: int | None = None) -> Tensor:
        """Return ``Σ_n log P(x_n)`` of the targets, a scalar; see :func:`chunked_sum` for its gradients."""

        def of_tokens(hidden: Tensor, targets: Tensor) -> Tensor:
            return target_log_probs(*self.components(hidden, topic), output_weight, targets)

        parameters = [*self.steering.parameters(), output_weight]
        return chunked_sum(of_tokens, hidden, targets, parameters, self._tokens_in_chunk(topic))

    def _num_softmaxes(self, topic: int | None) -> int:
        return 1 if self.average_states or topic is not None else self.steering.num_topics + 1

    def _tokens_in_chunk(self, topic: int | None) -> int:
        return max(1, self.chunk_size // self._num_softmaxes(topic))


def mixed_scores(log_weights: Tensor, states: Tensor, output_weight: Tensor) -> Tensor:
    """Return the logarithms of all probabilities, or the unnormalised logits of a single softmax.

    Shape:
        log_weights: N×K; states: N×K×H; output_weight: V×H; result: N×V
    """
    logits = F.linear(states.flatten(0, 1), output_weight)  # N·K×V
    if states.size(1) == 1:
        return logits
    log_probs = logits.log_softmax(-1, dtype=log_weights.dtype).unflatten(0, log_weights.shape)  # N×K×V
    return (log_probs + log_weights.unsqueeze(-1)).logsumexp(1)


def target_log_probs(log_weights: Tensor, states: Tensor, output_weight: Tensor, targets: Tensor) -> Tensor:
    """Return the log probability of each target.

    Shape:
        log_weights: N×K; states: N×K×H; output_weight: V×H; targets: N; result: N
    """
    logits = F.linear(states.flatten(0, 1), output_weight)  # N·K×V
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    costs = F.cross_entropy(logits, targets.repeat_interleave(states.size(1)), reduction="none")
    return (log_weights - costs.unflatten(0, log_weights.shape)).logsumexp(1)


def chunked_sum(function: OfTokens, hidden: Tensor, targets: Tensor, parameters: Sequence[Tensor], size: int) -> Tensor:
    """Return ``Σ_n function(hidden_n, targets_n)`` in chunks, so that activations of only one chunk are in memory.

    Each chunk runs forward and backward before the next one starts, so only its gradients are kept and nothing is
    recomputed, unlike with activation checkpointing. Sums are at least float32. The gradients do not see a loss scale:
    train in bfloat16 rather than in scaled float16.

    Args:
        function: maps states (c×H) and targets (c) to one number per token.
        parameters: all tensors that the function uses and that may need a gradient.
        size: number of tokens in a chunk.

    Shape:
        hidden: N×H; targets: N; result: scalar
    """
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (hidden, *parameters)):
        total: Tensor = _ChunkedSum.apply(function, size, hidden, targets, *parameters)
        return total
    total = hidden.new_zeros((), dtype=_wide(hidden))
    for chunk in zip(hidden.split(size), targets.split(size), strict=True):
        total += function(*chunk).sum()
    return total


class _ChunkedSum(torch.autograd.Function):
    """The chunked sum; the forward pass also computes all gradients."""

    @staticmethod
    def forward(
        ctx: Any, function: OfTokens, size: int, hidden: Tensor, targets: Tensor, *parameters: Tensor
    ) -> Tensor:
        total = hidden.new_zeros((), dtype=_wide(hidden))
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        sums = [torch.zeros_like(parameter, dtype=_wide(parameter)) for parameter in trained]
        hidden_grads = []
        for states, goals in zip(hidden.split(size), targets.split(size), strict=True):
            states = states.detach().requires_grad_(hidden.requires_grad)
            leaves = [*trained, states] if hidden.requires_grad else trained
            with torch.enable_grad():
                value = function(states, goals).sum()
            grads = torch.autograd.grad(value, leaves, materialize_grads=True)
            for so_far, grad in zip(sums, grads, strict=False):  # the gradient of the states is last
                so_far += grad
            if hidden.requires_grad:
                hidden_grads.append(grads[-1])
            total += value.detach()
        remaining = iter(sums)
        ctx.grads = [
            torch.cat(hidden_grads) if hidden_grads else None,
            None,
            *(next(remaining) if parameter.requires_grad else None for parameter in parameters),
        ]
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return None, None, *(None if own is None else own * grad for own in ctx.grads)


def _wide(tensor: Tensor) -> torch.dtype:
    """Return the dtype for sums of such a tensor, at least float32."""
    return torch.promote_types(tensor.dtype, torch.float32)
