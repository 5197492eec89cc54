"""Log probabilities of sentences from a recurrent language model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from fairseq.data import data_utils
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from fairseq_ext.experiments.encoding import LanguageModel
from fairseq_ext.experiments.perplexity import token_losses


def score_lines(lm: LanguageModel, lines: Iterable[str], max_tokens: int) -> np.ndarray:
    """Compute natural log probabilities of N lines of subwords, including their ends, given an initial ``</s>``: N.

    ``max_tokens`` is the maximum number of tokens in a batch; single lines may be longer.
    """
    pad, device = lm.dictionary.pad(), next(lm.model.parameters()).device
    targets = [lm.dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
    lengths, scores = np.array([len(target) for target in targets]), np.zeros(len(targets))
    # Batches of lines with similar length need less padding.
    order, limit = np.argsort(lengths, kind="stable"), max(max_tokens, lengths.max())
    batches = data_utils.batch_by_size(order, None, lengths[order], max_tokens=limit)
    for rows in tqdm(batches, desc="score", unit=" batches", disable=None):
        target = pad_sequence([targets[row] for row in rows], batch_first=True, padding_value=pad).to(device)  # B×T
        source = target.roll(1, dims=1)
        source[:, 0] = lm.dictionary.eos()
        with torch.inference_mode():
            losses = token_losses(lm.model(source)[0], target).double()
        scores[rows] = -losses.mul(target.ne(pad)).sum(1).cpu().numpy()
    return scores
