"""Labels for lines of text, by a task of a trained model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_ext.classifiers.predictions import logits_of, separator_of
from fairseq_ext.classifiers.task_data import FIRST
from fairseq_ext.corpora.raw_text import canonical
from fairseq_ext.inputs.errors import InputError

_BLOCK_BATCHES = 16  # so many batches are read, and ordered by length, at a time
_PAIR = "\t"

Encode = Callable[[Iterable[str]], Iterator[str]]


def classify(model: Any, task: str, lines: Iterable[str], encode: Encode, batch_size: int = 64) -> Iterator[str]:
    """Yield for each line its label and that label's probability, or the number that a regression predicts.

    Args:
        model: ``roberta_houlsby_adapter`` in evaluation mode.
        task: one of its tasks.
        lines: texts, or pairs of texts with a tab between them.
        encode: lines as pieces joined by spaces.
        batch_size: how many at a time.
    """
    with model.active(task):  # which tells a wrong name before any text is read
        labels = model.tasks[task].labels
    numbered = enumerate(lines, start=1)
    while block := list(islice(numbered, batch_size * _BLOCK_BATCHES)):
        examples = [_texts_of(line, number) for number, line in block]
        pieces = encode([text for texts in examples for text in texts])
        inputs = [to_input(model, task, list(islice(pieces, len(texts)))) for texts in examples]
        for logits in logits_of(model, task, inputs, batch_size):
            yield _format(logits, labels)


def to_input(model: Any, task: str, texts: Sequence[str]) -> Tensor:
    """The pieces of a text or a pair as the model takes them: ``<s> a </s>``, and ``</s> b </s>`` behind it.

    A task with token types reads ``b </s>`` there.

    Shape:
        result: T
    """
    dictionary = model.encoder.dictionary
    parts = [dictionary.encode_line(pieces, add_if_not_exist=False).long() for pieces in texts]
    starts = [[FIRST], [mark for mark in [separator_of(model, task)] if mark is not None]]
    opened = [torch.cat([torch.tensor(start).long(), part]) for start, part in zip(starts, parts, strict=False)]
    return torch.cat(opened)[: model.max_positions()]


def _texts_of(line: str, number: int) -> list[str]:
    """The texts of a line, as those that the task was trained on."""
    texts = [canonical(text, Counter()) for text in line.split(_PAIR)]
    if len(texts) > 2:
        raise InputError(f"standard input, line {number}: has {len(texts)} texts; give one, or two with a tab between")
    return texts


def _format(logits: np.ndarray, labels: Sequence[str]) -> str:
    if not labels:
        return f"{logits[0]:.4f}"
    powers = np.exp(logits - logits.max())
    best = int(logits.argmax())
    return f"{labels[best]}\t{powers[best] / powers.sum():.4f}"
