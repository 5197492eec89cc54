"""The words of a topic aware transformer's topics: those near to its embedding, and those it is used for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm


@dataclass(frozen=True)
class TopicUse:
    """For which tokens topics are used.

    Attributes:
        counts: π at the positions that predict a token, summed by token.

    Shape:
        counts: V×(Z+1)
    """

    counts: Tensor

    @property
    def shares(self) -> Tensor:
        """The mean of π over all tokens, Z+1."""
        total = self.counts.sum(0)
        return total / total.sum()


def count_use(model: Any, batches: Sequence[dict[str, Any]], padding_idx: int) -> TopicUse:
    """Read text and add up π by the tokens that follow.

    Args:
        model: with topics, in evaluation mode.
        batches: of the task.
        padding_idx: stands for no target.
    """
    device = next(model.parameters()).device
    weight = model.decoder.output_weight
    counts = torch.zeros(len(weight), model.num_topics + 1, dtype=torch.float64)
    for batch in tqdm(batches, desc="topics", unit=" batches", leave=False, disable=None):
        target = batch["target"].to(device)
        with torch.inference_mode():
            _, extra = model(batch["net_input"]["src_tokens"].to(device), features_only=True)
            is_token = target.ne(padding_idx)
            weights = extra["topic_weights"][is_token].double().cpu()
            counts.index_add_(0, target[is_token].cpu(), weights)
    return TopicUse(counts)


def words_near(embeddings: Tensor, output_weight: Tensor, candidates: Sequence[int], num_words: int) -> list[list[int]]:
    """The candidates whose output embedding is nearest to each topic's, by cosine, as the paper has it.

    Args:
        embeddings: the columns of W_Z.
        output_weight: W_V transposed.
        candidates: tokens.
        num_words: how many for each topic, or all there are.

    Shape:
        embeddings: (Z+1)×H; output_weight: V×H; result: Z+1 lists of tokens
    """
    index = torch.as_tensor(candidates, device=output_weight.device)
    near = F.normalize(embeddings, dim=1) @ F.normalize(output_weight[index], dim=1).T  # (Z+1)×C
    return _best(near, candidates, num_words)


def words_by_use(counts: Tensor, candidates: Sequence[int], num_words: int) -> list[list[int]]:
    """The candidates that are most typical of what each topic is used for: by ``p(w|z)·log(p(w|z)/p(w))``.

    The share alone would give every topic the same frequent words, the quotient alone words that hardly occur.

    Args:
        counts: π by token.
        candidates: tokens, which alone make up the distributions.
        num_words: how many for each topic, or all there are.

    Shape:
        counts: V×(Z+1); result: Z+1 lists of tokens
    """
    own = counts[torch.as_tensor(candidates)].double().clamp(min=1e-12)  # C×(Z+1)
    of_topic = own / own.sum(0)
    of_all = own.sum(1, keepdim=True) / own.sum()
    return _best((of_topic * (of_topic / of_all).log()).T, candidates, num_words)


def _best(scores: Tensor, candidates: Sequence[int], num_words: int) -> list[list[int]]:
    """The candidates with the highest scores in each row of R×C, equal ones in their order."""
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :num_words]
    return [[candidates[place] for place in row] for row in order.tolist()]
