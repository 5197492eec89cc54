"""Topic models: likelihood of text, use and words of each topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from fairseq_ext.recipes.perplexity import Batch, LanguageModelScorer, Likelihood


def text_likelihood(scorer: LanguageModelScorer, batches: Sequence[Batch]) -> Likelihood:
    """The likelihood of text by a model with or without topics.

    Mixtures compute only the probabilities of the targets, a few tokens at a time.
    """
    if not hasattr(scorer.model, "num_topics"):
        return scorer.score(batches)[0]
    device, pad = next(scorer.model.parameters()).device, scorer.task.target_dictionary.pad()
    found = Likelihood()
    for batch in batches:
        target = batch["target"].to(device)
        with torch.inference_mode():
            _, extra = scorer.model(batch["net_input"]["src_tokens"].to(device), targets=target)
        found.nats -= extra["log_prob"].item()
        found.tokens += int(target.ne(pad).sum())
    return found


def count_use(model: Any, batches: Sequence[Batch], padding_idx: int) -> Tensor:
    """Sum the weights of the topics by predicted token.

    Shape:
        result: V×(Z+1), in double precision
    """
    device = next(model.parameters()).device
    counts = torch.zeros(len(model.decoder.output_weight), model.num_topics + 1, dtype=torch.float64)
    for batch in tqdm(batches, desc="topics", unit=" batches", leave=False, disable=None):
        target = batch["target"].to(device)
        with torch.inference_mode():
            _, extra = model(batch["net_input"]["src_tokens"].to(device), features_only=True)
        is_token = target.ne(padding_idx)
        counts.index_add_(0, target[is_token].cpu(), extra["topic_weights"][is_token].double().cpu())
    return counts


def words_near(embeddings: Tensor, output_weight: Tensor, candidates: Sequence[int], num_words: int) -> list[list[int]]:
    """The candidates with the nearest output embeddings to each topic's, by cosine, as in the paper.

    Shape:
        embeddings: (Z+1)×H, W_Z transposed; output_weight: V×H, W_V transposed; result: Z+1 lists of tokens
    """
    index = torch.as_tensor(candidates, device=output_weight.device)
    cosines = F.normalize(embeddings, dim=1) @ F.normalize(output_weight[index], dim=1).T  # (Z+1)×C
    return _best(cosines, candidates, num_words)


def words_by_use(counts: Tensor, candidates: Sequence[int], num_words: int) -> list[list[int]]:
    """The most typical predicted tokens of each topic, by ``p(w|z)·log(p(w|z)/p(w))``.

    The probability alone prefers frequent words, the quotient alone rare ones. The distributions are over the
    candidates alone.

    Shape:
        counts: V×(Z+1), of :func:`count_use`; result: Z+1 lists of tokens
    """
    own = counts[torch.as_tensor(candidates)].double().clamp(min=1e-12)  # C×(Z+1)
    of_topic = own / own.sum(0)
    of_all = own.sum(1, keepdim=True) / own.sum()
    return _best((of_topic * (of_topic / of_all).log()).T, candidates, num_words)


def _best(scores: Tensor, candidates: Sequence[int], num_words: int) -> list[list[int]]:
    """The candidates with the highest scores in each row of R×C; equal ones keep their order."""
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :num_words]
    return [[candidates[place] for place in row] for row in order.tolist()]
