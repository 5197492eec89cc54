"""Topics on top of a language model: where each takes a hidden state, and the mixture of the softmaxes that follow.

The memory of the mixture does not grow with the number of topics.
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
    """``F(h, z) = h·(I + A_z) + b_z``, with ``A_z`` and ``b_z`` zero at the start."""

    def __init__(self, embed_dim: int, num_topics: int):
        super().__init__()
        # Z×H×H, transposed as in nn.Linear: all topics together are then one wide projection of H to Z·H.
        self.matrix = nn.Parameter(torch.zeros(num_topics, embed_dim, embed_dim))
        self.offset = nn.Parameter(torch.zeros(num_topics, embed_dim))

    def forward(self, hidden: Tensor, topics: slice = ALL) -> Tensor:
        matrix, offset = self.matrix[topics], self.offset[topics]
        moves = F.linear(hidden, matrix.flatten(0, 1), offset.flatten()).unflatten(-1, matrix.shape[:2])
        return hidden.unsqueeze(-2) + moves


class Multiplication(nn.Module):
    """``F(h, z) = h ⊙ (1 + g_z)``, with ``g_z`` zero at the start."""

    def __init__(self, embed_dim: int, num_topics: int):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(num_topics, embed_dim))

    def forward(self, hidden: Tensor, topics: slice = ALL) -> Tensor:
        return hidden.unsqueeze(-2) * (1 + self.gain[topics])


class Addition(nn.Module):
    """``F(h, z) = (1 − ω_z)·h + ω_z·g_z``, with ``g_z`` a standard normal and ``ω_z`` zero at the start."""

    def __init__(self, embed_dim: int, num_topics: int):
        super().__init__()
        self.goal = nn.Parameter(torch.randn(num_topics, embed_dim))
        self.omega = nn.Parameter(torch.zeros(num_topics, 1))

    def forward(self, hidden: Tensor, topics: slice = ALL) -> Tensor:
        hidden = hidden.unsqueeze(-2)
        return hidden + self.omega[topics] * (self.goal[topics] - hidden)


TRANSFORMATIONS = {"affine": Affine, "multiplication": Multiplication, "addition": Addition}


class TopicSteering(nn.Module):
    """Z topics of hidden states, beside topic 0, which leaves them as they are (Topic Aware Transformer, §3.5).

    ``π = softmax(LayerNorm(h)·W_Z)`` says how much of each topic there is (Eq. 4), ``F(h, z)`` where topic z takes the
    state (Eq. 5). The rows of ``embeddings`` are the columns of ``W_Z``.

    Every transformation starts as ``F(h, z) = h``, so the paper's ``A_z`` and ``g_z`` of a product are stored as what
    they differ by from one: weight decay then draws them to the base, and half precision keeps small changes. For the
    sum this needs ω = 0. The paper has a constant ω, at which the topics cannot start as the base; here each topic
    learns its own. ``W_Z`` starts so that π differs from state to state, without which equal topics would get equal
    gradients and stay equal.

    Shape:
        hidden: …×H; result: …×(Z+1)×H, ``F(h, z)`` of all topics
    """

    def __init__(self, embed_dim: int, num_topics: int, transformation: str = "affine"):
        super().__init__()
        self.num_topics = num_topics
        self.norm = nn.LayerNorm(embed_dim)
        # Scores of a normalised state are then standard normal.
        self.embeddings = nn.Parameter(torch.randn(num_topics + 1, embed_dim) * embed_dim**-0.5)
        self.transformation = TRANSFORMATIONS[transformation](embed_dim, num_topics)

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.cat([hidden.unsqueeze(-2), self.transformation(hidden)], dim=-2)

    def steer(self, hidden: Tensor, topic: int) -> Tensor:
        """``F(h, z)`` of one topic: …×H → …×H."""
        if topic == 0:
            return hidden
        moved: Tensor = self.transformation(hidden, slice(topic - 1, topic))
        return moved.squeeze(-2)

    def log_weights(self, hidden: Tensor) -> Tensor:
        """log π, at least float32: …×H → …×(Z+1)."""
        scores = F.linear(self.norm(hidden), self.embeddings)
        return scores.log_softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))

    def weights(self, hidden: Tensor) -> Tensor:
        """π: …×H → …×(Z+1), rows sum to one."""
        return self.log_weights(hidden).exp()


class MixtureOfSoftmaxes(nn.Module):
    """``P(x) = Σ_z π_z · softmax(F(h, z)·W_V)[x]`` (Topic Aware Transformer, Eq. 2 and 4).

    The cheap form averages the states instead: ``softmax(Σ_z π_z·F(h, z)·W_V)``. As W_V is linear this is the softmax
    of the averaged logits, with one product with W_V for all topics. A single softmax is all there is, too, where
    topic 0 is the only one or a topic is forced.

    Args:
        average_states: use the cheap form.
        chunk_size: rows of logits that are in memory at a time, one a token and softmax.
        output_weight: V×H, of which a copy becomes a parameter; None for no own output embedding.

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
        """The K softmaxes to mix: their log weights (N×K) and the states they are of (N×K×H)."""
        if self._num_softmaxes(topic) > 1:
            return self.steering.log_weights(hidden), self.steering(hidden)
        if topic is None and self.steering.num_topics:
            weights = self.steering.weights(hidden).to(hidden.dtype)
            states = weights.unsqueeze(1) @ self.steering(hidden)
        else:
            states = self.steering.steer(hidden, topic or 0).unsqueeze(1)
        return states.new_zeros(states.shape[:2]), states

    def scores(self, hidden: Tensor, output_weight: Tensor, topic: int | None = None) -> Tensor:
        """N×V, whose softmax are the probabilities: their logarithms, or the logits of a single softmax."""
        # A chunk of tokens shares one product, in which W_V is read once for all topics.
        chunks = hidden.split(self._tokens_in_chunk(topic))
        return torch.cat([mixed_scores(*self.components(chunk, topic), output_weight) for chunk in chunks])

    def log_prob_sum(self, hidden: Tensor, targets: Tensor, output_weight: Tensor, topic: int | None = None) -> Tensor:
        """``Σ_n log P(x_n)`` of the targets, a scalar; its gradients come with it, chunk by chunk."""

        def of_tokens(hidden: Tensor, targets: Tensor) -> Tensor:
            return target_log_probs(*self.components(hidden, topic), output_weight, targets)

        parameters = [*self.steering.parameters(), output_weight]
        return chunked_sum(of_tokens, hidden, targets, parameters, self._tokens_in_chunk(topic))

    def _num_softmaxes(self, topic: int | None) -> int:
        return 1 if self.average_states or topic is not None else self.steering.num_topics + 1

    def _tokens_in_chunk(self, topic: int | None) -> int:
        return max(1, self.chunk_size // self._num_softmaxes(topic))


def mixed_scores(log_weights: Tensor, states: Tensor, output_weight: Tensor) -> Tensor:
    """The logarithms of all probabilities; of a single softmax its logits, which it does not change.

    Shape:
        log_weights: N×K; states: N×K×H; output_weight: V×H; result: N×V
    """
    logits = F.linear(states.flatten(0, 1), output_weight)  # N·K×V
    if states.size(1) == 1:
        return logits
    log_probs = logits.log_softmax(-1, dtype=log_weights.dtype).unflatten(0, log_weights.shape)  # N×K×V
    return (log_probs + log_weights.unsqueeze(-1)).logsumexp(1)


def target_log_probs(log_weights: Tensor, states: Tensor, output_weight: Tensor, targets: Tensor) -> Tensor:
    """The logarithm of each target's probability.

    Shape:
        log_weights: N×K; states: N×K×H; output_weight: V×H; targets: N; result: N
    """
    logits = F.linear(states.flatten(0, 1), output_weight)  # N·K×V
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    costs = F.cross_entropy(logits, targets.repeat_interleave(states.size(1)), reduction="none")
    return (log_weights - costs.unflatten(0, log_weights.shape)).logsumexp(1)


def chunked_sum(function: OfTokens, hidden: Tensor, targets: Tensor, parameters: Sequence[Tensor], size: int) -> Tensor:
    """``Σ_n function(hidden_n, targets_n)``, in memory that does not grow with the number of tokens.

    Each chunk goes forward and backward before the next one begins, so nothing of it is kept but its share of the
    gradients, and nothing is computed twice, as it would be if the backward pass made it again. The sums are at least
    float32. The gradients do not know of a loss scale: train in bfloat16 rather than in scaled float16.

    Args:
        function: of some tokens' states (c×H) and targets (c); one number a token.
        parameters: all that the function uses and that may have a gradient.
        size: tokens in a chunk.

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
    """The sum, which has all its gradients when it comes out of the forward pass."""

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
            for so_far, grad in zip(sums, grads, strict=False):  # the states' own comes last
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
    """The type in which many such numbers can be added up."""
    return torch.promote_types(tensor.dtype, torch.float32)
