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
    before each token; the text itself, and each row, goes on from the row before, and begins after an end of sentence.

    Args:
        tokens: all tokens of the text.
        rows: B, at least 1.
        length: T, at least 1.
        pad: number of the padding symbol.
        eos: number of the end of sentence.

    Shape:
        tokens: N

    Raises:
        ValueError: if there are fewer tokens than rows.
    """

    def __init__(self, tokens: Tensor, rows: int, length: int, pad: int, eos: int):
        if len(tokens) < rows:
            raise ValueError(f"{len(tokens)} tokens are too few for {rows} rows")
        self.length = length
        self.pad = pad
        width = -(-len(tokens) // rows)
        self.target = _in_rows(tokens, rows, width, pad)
        self.source = _in_rows(torch.cat([tokens.new_tensor([eos]), tokens[:-1]]), rows, width, pad)

    def __len__(self) -> int:
        return -(-self.target.size(1) // self.length)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The segment of this number, as a batch."""
        part = slice(index * self.length, (index + 1) * self.length)
        source, target = self.source[:, part].contiguous(), self.target[:, part].contiguous()
        return {
            "id": torch.arange(len(source)) + index * len(source),
            "nsentences": len(source),
            "ntokens": int(target.ne(self.pad).sum()),
            "net_input": {"src_tokens": source, "src_lengths": source.ne(self.pad).sum(1), "segment": index},
            "target": target,
        }

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """The only segment of a batch."""
        (sample,) = samples
        return sample

    @property
    def sizes(self) -> np.ndarray:
        """Of the segments."""
        return np.full(len(self), self.length)

    def num_tokens(self, index: int) -> int:
        return self.target[:, :1].size(0) * self.length

    def size(self, index: int) -> int:
        return self.length


def _in_rows(tokens: Tensor, rows: int, width: int, pad: int) -> Tensor:
    """B×W, row after row, the rest padded."""
    padded = tokens.new_full((rows * width,), pad)
    padded[: len(tokens)] = tokens
    return padded.view(rows, width)
