"""Contiguous text in segments, for models that carry their state over from one to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset
from torch import Tensor


class ContiguousSegments(FairseqDataset):
    """A text cut into B rows, side by side, and the rows into segments of T tokens; an item is one segment of all rows.

    ::

        a b c d e f g h i j k     B = 2, T = 4:     a b c d | e f
                                                    g h i j | k -

    Every token is in exactly one place, so that only the ends of the last rows are padded. What is read is what comes
    before each token; each row goes on from the row before, and the text begins after an end of sentence. Tokens are
    copied a segment at a time, so that a text on disk, mapped, takes no memory.

    Args:
        tokens: all tokens of the text, numbers of any width.
        rows: B, from 1 to the number of tokens.
        length: T, at least 1.
        pad: number of the padding symbol.
        eos: number of the end of sentence.

    Shape:
        tokens: N
    """

    def __init__(self, tokens: np.ndarray, rows: int, length: int, pad: int, eos: int):
        self.tokens = tokens
        self.rows = rows
        self.length = length
        self.pad = pad
        self.eos = eos
        self._width = -(-len(tokens) // rows)  # of a row

    def __len__(self) -> int:
        return -(-self._width // self.length)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The segment of this number, as a batch."""
        source, target = self._source_and_target(index)
        return {
            "id": torch.arange(self.rows) + index * self.rows,
            "nsentences": self.rows,
            "ntokens": int(target.ne(self.pad).sum()),
            "net_input": {"src_tokens": source, "src_lengths": source.ne(self.pad).sum(1), "segment": index},
            "target": target,
        }

    def _source_and_target(self, index: int) -> tuple[Tensor, Tensor]:
        """B×T each, the last segment shorter."""
        start = index * self.length
        length = min(self.length, self._width - start)
        source, target = (np.full((self.rows, length), self.pad) for _ in range(2))
        for row in range(self.rows):
            begin = row * self._width + start
            part = self.tokens[begin : begin + length]
            target[row, : len(part)] = part
            before = self.tokens[begin - 1 : begin] if begin else [self.eos]
            source[row, : len(part)] = np.concatenate([before, part[:-1]])[: len(part)]
        return torch.from_numpy(source), torch.from_numpy(target)

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """The only segment of a batch."""
        (sample,) = samples
        return sample

    @property
    def sizes(self) -> np.ndarray:
        """Of the segments."""
        return np.full(len(self), self.length)

    def num_tokens(self, index: int) -> int:
        return self.rows * self.length

    def size(self, index: int) -> int:
        return self.length
