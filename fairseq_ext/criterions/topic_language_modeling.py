"""Language modelling loss plus topic distribution modelling (Topic Aware Transformer, §4)."""

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

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.option import option
from fairseq_ext.modules.language_model_options import NO_TDM, TDM, TOPIC_CRITERION, TOPIC_MODEL

# Under this name the log keeps the mean of π; fairseq does not print what begins like this.
_USAGE = "_topic_usage"


@dataclass
class TopicLanguageModelingCriterionConfig(CrossEntropyCriterionConfig):
    tdm: ChoiceEnum(list(TDM)) = option(  # type: ignore[valid-type]
        TDM[0],
        "topic distribution modelling, which draws the topics of a text to its mean state: nearer than to "
        "another text's (triplet; unit-triplet: all made vectors of length one, so that ε is of their angles), by "
        "the mean squared difference (l2), by cross-entropy or KL divergence of both, "
        "made distributions by a softmax (cross-entropy, kl), or not at all (none) (default: triplet, the paper's)",
    )
    tdm_margin: float = option(0.2, "ε: how much nearer triplets want it to be (default: 0.2, the paper's)")
    tdm_weight: float = option(0.5, "λ: weight of topic distribution modelling (default: 0.5, the paper's)")


@register_criterion(TOPIC_CRITERION, dataclass=TopicLanguageModelingCriterionConfig)
class TopicLanguageModelingCriterion(CrossEntropyCriterion):
    """``L = −log P(x) + λ·L_TDM`` (Eq. 7), for models of ``transformer_lm_topic``.

    A row of the batch is a text. Its term of L_TDM counts once for each of its tokens, so that per token, as fairseq
    divides, this is mean loss plus λ times mean term, however long the texts are.

    The logged ``loss`` is −log P(x) alone, in bits a token, so that it and ``ppl`` compare with other models';
    ``tdm_loss`` is the mean over texts. ``topic_entropy`` (bits) is that of the topics' mean weights, ``dead_topics``
    counts those with a mean weight below a tenth of an even share.
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
                f"this criterion trains topics and the model has none: use --arch {TOPIC_MODEL}, or "
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
        # Of the mean over all batches, which the mean of the batches' figures is not.
        metrics.log_derived("topic_entropy", partial(_of_usage, topic_entropy))
        metrics.log_derived("dead_topics", partial(_of_usage, count_dead_topics))


def mean_over_tokens(values: Tensor, is_token: Tensor) -> Tensor:
    """The mean over each row's tokens, at least float32, zero for none: B×T×C and B×T → B×C."""
    values = values.masked_fill(~is_token.unsqueeze(-1), 0)
    total = values.sum(1, dtype=torch.promote_types(values.dtype, torch.float32))
    return total / is_token.sum(1, keepdim=True).clamp(min=1)


def tdm_terms(kind: str, topics: Tensor, texts: Tensor, margin: float) -> Tensor:
    """What topic distribution modelling costs each text (§4.1, Eq. 6).

    The other text of a triplet is the next row; a single text has none, and its term is zero. For the ablation, which
    the paper does not spell out, both vectors become distributions by a softmax, and that of the topics is the
    reference, as ``z_d`` is said to be: cross-entropy ``−Σ z·log t`` and divergence ``Σ z·log(z/t)`` then differ by the
    topics' entropy. With the text for reference, which is fixed, they would be the same loss.

    Args:
        topics: ``z_d``, the mean of π times W_Z transposed.
        texts: ``TID_d``, the mean of the last states.
        margin: ε of the triplets.

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
    """Bits of the topics' mean weights: 0 if one does all, log2(Z+1) if all do the same."""
    used = usage[usage > 0]
    return float(-(used * np.log2(used)).sum())


def count_dead_topics(usage: np.ndarray) -> int:
    """How many topics have less than a tenth of an even share."""
    return int((usage < 0.1 / len(usage)).sum())


def _of_usage(figure: Any, meters: MetersDict) -> float:
    return round(figure(meters[_USAGE].avg), 3)
