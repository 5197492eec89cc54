"""Log probabilities of sentences from a fairseq language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from fairseq_ext.experiments.encoding import LanguageModel
from fairseq_ext.text.encoders import Encoder


@dataclass(frozen=True)
class FairseqScores:
    """Compute natural log probabilities of sentences, including their end, given an initial ``</s>``.

    Attributes:
        lm: the language model.
        encoder: splits text into subwords.
        max_tokens: maximum number of tokens in a batch; single rows may be longer.
    """

    lm: LanguageModel
    encoder: Encoder
    max_tokens: int = 4096

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Score texts.

        Shape:
            texts: N; result: N
        """
        lines = self.encoder(texts)
        tokens = [self.lm.dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
        rows = [(number, *window) for number, sentence in enumerate(tokens) for window in self._windows(sentence)]
        # Batches of rows with similar length need less padding.
        rows.sort(key=lambda row: (len(row[1]), row[0]))
        scores = np.zeros(len(texts))
        for numbers, inputs, targets in tqdm(self._batches(rows), desc="score", unit=" batches", disable=None):
            np.add.at(scores, numbers, self._score(inputs, targets))
        return scores

    def _windows(self, tokens: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Return the inputs and targets of a sentence, in windows if it is too long for the model."""
        inputs = tokens.roll(1)
        inputs[0] = self.lm.dictionary.eos()
        limit = int(self.lm.model.max_positions())
        return zip(inputs.split(limit), tokens.split(limit), strict=True)

    def _batches(self, rows: list[tuple[int, Tensor, Tensor]]) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Yield batches of rows sorted by length: sentence numbers, inputs and targets (B×T)."""
        start = 0
        while start < len(rows):
            end = start + 1
            while end < len(rows) and (end + 1 - start) * len(rows[end][1]) <= self.max_tokens:
                end += 1
            numbers, inputs, targets = zip(*rows[start:end], strict=True)
            pad = self.lm.dictionary.pad()
            yield list(numbers), pad_sequence(list(inputs), True, pad), pad_sequence(list(targets), True, pad)
            start = end

    def _score(self, inputs: Tensor, targets: Tensor) -> np.ndarray:
        """Compute the log probability of each row's targets: B×T, B×T → B."""
        model = self.lm.model
        device = next(model.parameters()).device
        inputs, targets = inputs.to(device), targets.to(device)
        is_target = targets.ne(self.lm.dictionary.pad())
        with torch.inference_mode():
            out = model(inputs, src_lengths=inputs.ne(self.lm.dictionary.pad()).sum(1))
            log_probs = model.get_normalized_probs(out, log_probs=True, sample={"target": targets})  # B×T×V
            of_targets = log_probs.gather(2, targets.unsqueeze(2)).squeeze(2)
            return of_targets.double().mul(is_target).sum(1).cpu().numpy()
