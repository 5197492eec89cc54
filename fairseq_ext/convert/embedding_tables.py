"""Embeddings of a translation model in the order of fairseq's dictionaries, and with symbols that it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.translation_vocabulary import TranslationVocabulary
from fairseq_ext.patches.models import OUTPUT_BIAS

_INPUTS, _OUTPUT = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), "decoder.output_projection.weight"
_BIAS = f"decoder.{OUTPUT_BIAS}"
# Index of </s> in every fairseq dictionary.
_EOS = 2
# Logit of a symbol that the model lacks: its probability is zero in float32.
_NEVER = -100.0


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
        weights = dict(zip((*_INPUTS, _OUTPUT), (words, inputs, output), strict=True))
        if None in target or (self.bias is not None and bool(self.bias.any())):
            own = torch.zeros(len(self.output)) if self.bias is None else self.bias
            weights[_BIAS] = _rows(own, target, _NEVER)
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


def add_symbols(weights: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    """Return a translation model's weights with ``count`` more symbols at the end of both dictionaries.

    Their embeddings are zero, so that a training starts from the unchanged model. The model never produces them.
    """
    added = dict(weights)
    tables: dict[int, Tensor] = {}
    for name in [name for name in (*_INPUTS, _OUTPUT) if name in weights]:
        table = weights[name]
        # Tied tables stay one tensor.
        added[name] = tables.setdefault(table.data_ptr(), torch.cat([table, table.new_zeros(count, table.size(1))]))
    output = weights[_OUTPUT if _OUTPUT in weights else _INPUTS[1]]
    bias = weights.get(_BIAS, output.new_zeros(len(output)))
    return {**added, _BIAS: torch.cat([bias, bias.new_full((count,), _NEVER)])}
