"""What the words of the source tell about the domain: a score for every subword, and for every pair of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Any large odd number spreads pairs over the columns.
_MULTIPLIER = 1_000_003


class SourceGate(nn.Module):
    """Gate logits of a sentence from a bag of its n subwords and of the pairs of neighbours among them.

    ``g = (Σ_t W[token_t] + Σ_t P[hash(token_t, token_t+1)]) · s / √n``: a linear classifier of the source inside the
    model, which knows the whole sentence before the first layer runs, for encoder and decoder alike. Pairs are hashed
    (Weinberger et al. 2009), so that there is no list of them.

    Args:
        num_tokens: V, symbols of the source.
        num_adapters: D.
        num_pairs: columns that pairs share; 0 for none.
        ignored: symbols that are no text: padding, end of the sentence.
        dropout: of subwords and pairs, in training.
        scale: s; an optimiser like Adam, which moves every number by about the learning rate, moves logits by so many
            times as much.

    Shape:
        src_tokens: B×S; result: 1×B×D, float32
    """

    def __init__(self, num_tokens: int, num_adapters: int, num_pairs: int, ignored: tuple[int, ...], dropout: float = 0.0, scale: float = 1.0):
        super().__init__()
        self.num_tokens, self.num_pairs, self.ignored, self.scale = num_tokens, num_pairs, ignored, scale
        self.dropout = dropout
        self.weight = nn.Parameter(torch.zeros(num_adapters, num_tokens + num_pairs))

    @property
    def row_names(self) -> tuple[str, ...]:
        """The parameters with one row an adapter."""
        return ("weight",)

    def forward(self, src_tokens: Tensor) -> Tensor:
        is_text = torch.stack([src_tokens.ne(symbol) for symbol in self.ignored]).all(0)
        columns, counts = src_tokens, is_text
        if self.num_pairs:
            pairs = (src_tokens[:, :-1] * _MULTIPLIER + src_tokens[:, 1:]) % self.num_pairs + self.num_tokens
            columns = torch.cat([columns, pairs], 1)
            counts = torch.cat([counts, is_text[:, :-1] & is_text[:, 1:]], 1)
        scores = F.embedding(columns, self.weight.t()).float() * F.dropout(counts.float(), self.dropout, self.training).unsqueeze(-1)
        length = is_text.sum(1, keepdim=True).clamp(min=1)
        return (scores.sum(1) * (self.scale / length.sqrt())).unsqueeze(0)
