"""The weights of BERT under RoBERTa's names.

The layers are the same. BERT counts positions from 0, RoBERTa from 2; token type 0 becomes part of the positions as
RoBERTa's does, and type 1, of the second text of a pair, has no place in fairseq. The layer norms' epsilon is another,
which :mod:`fairseq_ext.models.bert` keeps with the weights.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from fairseq_ext.convert.roberta_config import UNUSED_POSITIONS, RobertaConfig
from fairseq_ext.convert.roberta_weights import POSITIONS, complete_weights
from fairseq_ext.convert.weight_files import load_weights, weight_file

_PREFIX = "bert."
_HEAD = {
    "cls.predictions.transform.dense": "lm_head.dense",
    "cls.predictions.transform.LayerNorm": "lm_head.layer_norm",
    "cls.predictions.decoder": "lm_head.decoder",
    "cls.predictions": "lm_head",
}
# The head that tells whether one sentence follows another.
_UNUSED = "cls.seq_relationship."


def read_bert_weights(folder: Path, config: RobertaConfig) -> dict[str, Tensor]:
    """Read the weights in single precision, by RoBERTa's names without the prefix ``roberta.``.

    Raises:
        InputError: naming the file that is missing, damaged, holds more than weights, or is not of this ``config``.
    """
    named = {name.removeprefix(_PREFIX): value for name, value in load_weights(folder).items()}
    weights = {_robertas(name): value for name, value in named.items() if not name.startswith(_UNUSED)}
    if POSITIONS in weights:
        positions = weights[POSITIONS]
        unused = positions.new_zeros(UNUSED_POSITIONS, *positions.shape[1:])
        weights[POSITIONS] = torch.cat([unused, positions])
    return complete_weights(weights, config, str(weight_file(folder)))


def _robertas(name: str) -> str:
    """RoBERTa's name of a tensor of the head for masked tokens; all others have the same."""
    module, _, kind = name.rpartition(".")
    return f"{_HEAD.get(module, module)}.{kind}" if module else name
