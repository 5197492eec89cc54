"""Gate that classifies a source sentence's domain from its subwords and pairs of neighbouring subwords."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# A large odd number, which spreads pairs over the columns.
MULTIPLIER = 1_000_003
# Adam moves every weight by about the learning rate per step. At the learning rate of adapters, scores of words would
# need thousands of steps to reach the size that a classifier's have after two hundred.
LOGITS_A_WEIGHT = 25


class SourceGate(nn.Module):
    """Gate logits of a sentence from its n subwords and the pairs of neighbouring subwords.

    ``g = 25 / √n · Σ_t (W[token_t] + W[hash(token_t, token_t+1)])``: a linear classifier inside the model. It sees the
    whole sentence before the first layer runs and serves encoder and decoder. Pairs are hashed into columns
    (Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning").

    Args:
        num_pairs: P, number of columns for pairs; 0 for no pairs.
        ignored: symbols to ignore: padding, end of sentence.
        dropout: dropout probability of subwords and pairs in training.
        has_base: whether the base model alone is one more output, the last.

    Attributes:
        weight: D×(V+P) for V symbols, initialised to zero.
        base_weight: the base's row, 1×(V+P); None without it.

    Shape:
        src_tokens: B×S; result: 1×B×D, float32
    """

    row_names = ("weight",)  # the parameters with one row per adapter

    def __init__(
        self,
        num_tokens: int,
        num_adapters: int,
        num_pairs: int,
        ignored: Sequence[int],
        dropout: float = 0.0,
        has_base: bool = False,
    ):
        super().__init__()
        self.num_tokens, self.num_pairs = num_tokens, num_pairs
        self.ignored, self.dropout = tuple(ignored), dropout
        self.weight = nn.Parameter(torch.zeros(num_adapters, num_tokens + num_pairs))
        self.base_weight: nn.Parameter | None
        base = nn.Parameter(torch.zeros(1, num_tokens + num_pairs)) if has_base else None
        self.register_parameter("base_weight", base)

    @property
    def rows(self) -> Tensor:
        """The rows of all outputs, D×(V+P) or (D+1)×(V+P)."""
        return self.weight if self.base_weight is None else torch.cat([self.weight, self.base_weight])

    def forward(self, src_tokens: Tensor) -> Tensor:
        is_text = torch.stack([src_tokens.ne(symbol) for symbol in self.ignored]).all(0)
        columns, counts = src_tokens, is_text
        if self.num_pairs:
            pairs = (src_tokens[:, :-1] * MULTIPLIER + src_tokens[:, 1:]) % self.num_pairs
            columns = torch.cat([columns, pairs + self.num_tokens], 1)
            counts = torch.cat([counts, is_text[:, :-1] & is_text[:, 1:]], 1)
        kept = F.dropout(counts.float(), self.dropout, self.training)
        scores = F.embedding(columns, self.rows.t()).float()
        # Make each adapter's scores contiguous, so that its sum does not depend on the number of adapters.
        totals = (scores.permute(2, 0, 1).contiguous() * kept).sum(-1)
        length = is_text.sum(1).clamp(min=1)
        return (totals * (LOGITS_A_WEIGHT / length.sqrt())).t().unsqueeze(0)
