"""Topic steering: which topics a hidden state is about, and where each topic takes it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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

    ``num_topics`` is Z, without topic 0; ``transformation`` ``affine``, ``multiplication`` or ``addition``.

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
