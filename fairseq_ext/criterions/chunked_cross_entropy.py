"""Cross-entropy over large vocabularies, with the scores of one chunk of tokens in memory at a time."""

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterion, CrossEntropyCriterionConfig
from torch import Tensor

from fairseq_ext.base.option import option
from fairseq_ext.modules.language_model_options import CHUNKED_CRITERION
from fairseq_ext.modules.topics import chunked_sum


@dataclass
class ChunkedCrossEntropyConfig(CrossEntropyCriterionConfig):
    chunk: int = option(256, "number of tokens whose scores are in memory at a time (default: 256)")


@register_criterion(CHUNKED_CRITERION, dataclass=ChunkedCrossEntropyConfig)
class ChunkedCrossEntropyCriterion(CrossEntropyCriterion):
    """fairseq's ``cross_entropy`` for decoders with features and an output layer: the same loss and gradients.

    The scores of a batch of N tokens, N×V, are never whole, and neither are their gradients. The gradients do not see a
    loss scale: train in bfloat16 rather than in float16.
    """

    def __init__(self, task: Any, sentence_avg: bool, chunk: int):
        super().__init__(task, sentence_avg)
        self.chunk = chunk

    def forward(self, model: Any, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        target = sample["target"]
        features, _ = model(**sample["net_input"], features_only=True)  # B×T×H
        is_token = target.ne(self.padding_idx)
        decoder = model.decoder

        def of_tokens(states: Tensor, goals: Tensor) -> Tensor:
            scores = decoder.output_layer(states.unsqueeze(1)).squeeze(1)
            return F.cross_entropy(scores.float(), goals, reduction="none")

        parameters = list(decoder.output_projection.parameters())
        loss = chunked_sum(of_tokens, features[is_token], target[is_token], parameters, self.chunk)
        sample_size = len(target) if self.sentence_avg else sample["ntokens"]
        sizes = {"ntokens": sample["ntokens"], "nsentences": len(target), "sample_size": sample_size}
        return loss, sample_size, {"loss": loss.data, **sizes}
