"""Language modelling loss with topic distribution modelling (Topic Aware Transformer, §4)."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterion, CrossEntropyCriterionConfig
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.option import option
from fairseq_ext.modules.language_model_options import NO_TDM, TDM, TOPIC_CRITERION, TOPIC_MODEL

# Log entry of the mean of π; fairseq does not print names that begin with an underscore.
_USAGE = "_topic_usage"


@dataclass
class TopicLanguageModelingCriterionConfig(CrossEntropyCriterionConfig):
    tdm: ChoiceEnum(list(TDM)) = option(  # type: ignore[valid-type]
        TDM[0],
        "topic distribution modelling, a loss that draws the topics of a text to its mean state: triplet loss "
        "against another text (triplet; unit-triplet: with vectors normalised to length one), mean squared "
        "difference (l2), cross-entropy or KL divergence of their softmaxes (cross-entropy, kl), or none "
        "(default: triplet, the paper's)",
    )
    tdm_margin: float = option(0.2, "ε: margin of the triplet losses (default: 0.2, the paper's)")
    tdm_weight: float = option(0.5, "λ: weight of topic distribution modelling (default: 0.5, the paper's)")


@register_criterion(TOPIC_CRITERION, dataclass=TopicLanguageModelingCriterionConfig)
class TopicLanguageModelingCriterion(CrossEntropyCriterion):
    """``L = −log P(x) + λ·L_TDM`` (Eq. 7), for models of ``transformer_lm_topic``.

    A row of the batch is a text. Its term of L_TDM is multiplied by its number of tokens. Divided by the number of
    tokens, as fairseq does, the loss is the mean of −log P plus λ times the token-weighted mean of the terms.

    The logged ``loss`` is −log P(x) alone, in bits per token, so that it and ``ppl`` are comparable with other models.
    ``tdm_loss`` is the mean over texts. ``topic_entropy`` is the entropy of the topics' mean weights in bits,
    ``dead_topics`` the number of topics with a mean weight below a tenth of an even share.
    """

    def __init__(self, task: Any, sentence_avg: bool, tdm: str, tdm_margin: float, tdm_weight: float):
        super().__init__(task, sentence_avg)
        self.tdm = str(tdm)
        self.tdm_margin = tdm_margin
        self.tdm_weight = tdm_weight

    def forward(self, model: Any, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        target = sample["target"]
        if not hasattr(getattr(model, "decoder", None), "topics"):
            raise InputError(
                f"this criterion trains topics, but the model has none; use --arch {TOPIC_MODEL}, or "
                "--criterion cross_entropy"
            )
        _, extra = model(**sample["net_input"], targets=target)
        is_token = target.ne(self.padding_idx)  # B×T
        lengths = is_token.sum(1)
        nll = -extra["log_prob"]
        weights = mean_over_tokens(extra["topic_weights"], is_token)  # B×(Z+1)
        topics = weights @ extra["topic_embeddings"].to(weights.dtype)  # B×H
        texts = mean_over_tokens(extra["hidden"], is_token)  # B×H
        terms = tdm_terms(self.tdm, topics, texts, self.tdm_margin)
        loss = nll + self.tdm_weight * (lengths * terms).sum()
        sample_size = len(target) if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": nll.data,
            "tdm_loss": terms.detach().sum(),
            "topic_weights": lengths.to(weights.dtype) @ weights.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": len(target),
            "sample_size": sample_size,
        }
        return loss, sample_size, logging_output

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict]) -> None:
        super().reduce_metrics(logging_outputs)

        def total(key: str) -> Any:
            return sum(log.get(key, 0) for log in logging_outputs)

        num_texts, num_tokens = float(total("nsentences")), float(total("ntokens"))
        metrics.log_scalar("tdm_loss", float(total("tdm_loss")) / num_texts, num_texts, round=4)
        usage = torch.as_tensor(total("topic_weights")).double().cpu().numpy() / num_tokens
        metrics.log_scalar(_USAGE, usage, num_tokens)
        # Computed from the mean usage over all batches, as these metrics are not linear.
        metrics.log_derived("topic_entropy", partial(_of_usage, topic_entropy))
        metrics.log_derived("dead_topics", partial(_of_usage, count_dead_topics))


def mean_over_tokens(values: Tensor, is_token: Tensor) -> Tensor:
    """Average over each row's tokens in at least float32, zero if it has none: B×T×C and B×T → B×C."""
    values = values.masked_fill(~is_token.unsqueeze(-1), 0)
    total = values.sum(1, dtype=torch.promote_types(values.dtype, torch.float32))
    return total / is_token.sum(1, keepdim=True).clamp(min=1)


def tdm_terms(kind: str, topics: Tensor, texts: Tensor, margin: float) -> Tensor:
    """Return the topic distribution modelling loss of each text (§4.1, Eq. 6).

    The other text of a triplet is the next row; with a single text, the loss is zero. The ablation's losses are not
    fully specified in the paper. Here, a softmax makes both vectors distributions, and that of the topics is the
    reference, as the paper says of ``z_d``: cross-entropy ``−Σ z·log t`` and divergence ``Σ z·log(z/t)`` then differ by
    the topics' entropy. With the text, which is fixed, as reference, both would be the same loss.

    Args:
        topics: ``z_d``, the mean of π times W_Z transposed.
        texts: ``TID_d``, the mean of the last states.
        margin: ε of the triplet losses.

    Shape:
        topics, texts: B×H; result: B
    """
    if kind == "l2":
        return F.mse_loss(topics, texts, reduction="none").mean(1)
    if kind == "cross-entropy":
        return F.cross_entropy(texts, topics.softmax(1), reduction="none")
    if kind == "kl":
        return F.kl_div(texts.log_softmax(1), topics.log_softmax(1), reduction="none", log_target=True).sum(1)
    if kind == NO_TDM or len(texts) == 1:
        return topics.new_zeros(len(texts))
    if kind == "unit-triplet":
        topics, texts = F.normalize(topics, dim=1), F.normalize(texts, dim=1)
    near, far = (torch.linalg.vector_norm(topics - other, dim=1) for other in (texts, texts.roll(-1, 0)))
    return (near - far + margin).relu()


def topic_entropy(usage: np.ndarray) -> float:
    """Return the entropy of the topics' mean weights in bits: 0 if one topic has all, log2(Z+1) if all are equal."""
    used = usage[usage > 0]
    return float(-(used * np.log2(used)).sum())


def count_dead_topics(usage: np.ndarray) -> int:
    """Return the number of topics with less than a tenth of an even share."""
    return int((usage < 0.1 / len(usage)).sum())


def _of_usage(figure: Any, meters: MetersDict) -> float:
    return round(figure(meters[_USAGE].avg), 3)
