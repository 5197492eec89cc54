"""Embeddings of an imported translation model in the order of fairseq's dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.translation_vocabulary import TranslationVocabulary
from fairseq_ext.patches.models import OUTPUT_BIAS

_OUTPUT = "decoder.output_projection.weight"
# Index of </s> in every fairseq dictionary.
_EOS = 2
# Logit of a symbol that the model lacks: its probability is zero in float32.
NEVER = -100.0


@dataclass(frozen=True)
class EmbeddingTables:
    """A model's embeddings with its own symbol numbers, V×H; tied ones are the same tensor.

    Attributes:
        start: embedding of the first decoder input, H; None for that of ``</s>``.
        bias: of the output layer, V; None for zero.
    """

    encoder: Tensor
    decoder: Tensor
    output: Tensor
    start: Tensor | None = None
    bias: Tensor | None = None

    def for_fairseq(self, vocabulary: TranslationVocabulary) -> tuple[dict[str, Tensor], dict[str, bool]]:
        """Return fairseq's weights, and its options for tied embeddings and for the start."""
        source, target = vocabulary.source.order(), vocabulary.target.order()
        words = _rows(self.encoder, source)
        output = words if self.output is self.encoder and source == target else _rows(self.output, target)
        inputs = output if self.decoder is self.output else _rows(self.decoder, target)
        is_zero = self.start is not None and not self.start.any()
        if self.start is not None and not is_zero:
            inputs = inputs.clone()
            inputs[_EOS] = self.start
        weights = {"encoder.embed_tokens.weight": words, "decoder.embed_tokens.weight": inputs, _OUTPUT: output}
        if None in target or (self.bias is not None and bool(self.bias.any())):
            own = torch.zeros(len(self.output)) if self.bias is None else self.bias
            weights[f"decoder.{OUTPUT_BIAS}"] = _rows(own, target, NEVER)
        is_tied = inputs is output
        tied = {
            "share_decoder_input_output_embed": is_tied,
            "share_all_embeddings": is_tied and inputs is words,
            "zero_start": is_zero,
        }
        return weights, tied


def _rows(table: Tensor, order: Sequence[int | None], missing: float = 0.0) -> Tensor:
    """Return the rows of a table in the order of fairseq's dictionary.

    Shape:
        table: V×H or V; result: as many rows as ``order`` has
    """
    symbols = len(order) - order.count(None)
    if len(table) != symbols:
        raise InputError(f"an embedding table has {len(table)} rows, but the vocabulary has {symbols} symbols")
    if list(order) == list(range(len(table))):
        return table
    rows = table[torch.tensor([number or 0 for number in order])]
    rows[[row for row, number in enumerate(order) if number is None]] = missing
    return rows
