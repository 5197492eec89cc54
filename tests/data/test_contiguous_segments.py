"""Where every token of a text lies, and what comes before it."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fairseq_ext.data.contiguous_segments import ContiguousSegments

PAD, EOS = 1, 2


def segments(count: int, rows: int, length: int) -> ContiguousSegments:
    return ContiguousSegments(np.arange(10, 10 + count, dtype=np.uint16), rows, length, PAD, EOS)


def in_rows(tokens: list[int], rows: int) -> Tensor:
    """B×W, row after row, the rest padded."""
    width = -(-len(tokens) // rows)
    return torch.tensor(tokens + [PAD] * (rows * width - len(tokens))).view(rows, width)


def test_rows_lie_side_by_side() -> None:
    first, second = segments(11, rows=2, length=4)[0], segments(11, rows=2, length=4)[1]
    assert first["target"].tolist() == [[10, 11, 12, 13], [16, 17, 18, 19]]
    assert first["net_input"]["src_tokens"].tolist() == [[EOS, 10, 11, 12], [15, 16, 17, 18]]
    assert second["target"].tolist() == [[14, 15], [20, PAD]]
    assert second["net_input"]["src_tokens"].tolist() == [[13, 14], [19, PAD]]
    assert second["net_input"]["src_lengths"].tolist() == [2, 1]
    assert (first["net_input"]["segment"], second["net_input"]["segment"]) == (0, 1)
    assert (first["ntokens"], second["ntokens"]) == (8, 3)


@pytest.mark.parametrize(("count", "rows", "length"), [(11, 2, 4), (12, 3, 4), (1, 1, 40), (41, 20, 40), (999, 20, 7)])
def test_segments_are_parts_of_the_whole_text_in_rows(count: int, rows: int, length: int) -> None:
    data, text = segments(count, rows, length), list(range(10, 10 + count))
    parts = [data[index] for index in range(len(data))]
    source = torch.cat([part["net_input"]["src_tokens"] for part in parts], 1)
    assert torch.equal(torch.cat([part["target"] for part in parts], 1), in_rows(text, rows))
    assert torch.equal(source, in_rows([EOS, *text[:-1]], rows))
