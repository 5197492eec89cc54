"""Models with topics: what topics are used for, and their words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from fairseq_ext.recipes.topics.topic_models import count_use, words_by_use, words_near


def test_the_nearest_are_so_by_angle() -> None:
    output = torch.tensor([[0.1, 0.0], [9.0, 9.0], [0.0, 5.0], [1.0, 0.0]])
    topics = torch.tensor([[1.0, 0.1], [0.0, 1.0]])
    assert words_near(topics, output, [1, 2, 3], 2) == [[3, 1], [2, 1]]
    # Length is no matter, equal ones keep their order, and only candidates are asked.
    assert words_near(topics, output, [0, 1, 3], 3)[0] == [0, 3, 1]


def test_words_by_use_are_typical_and_frequent() -> None:
    counts = torch.tensor([[50.0, 50.0], [30.0, 1.0], [3.0, 0.0], [1.0, 30.0]])
    # Frequent everywhere, frequent in one topic, rare in one topic, frequent in the other.
    assert words_by_use(counts, [0, 1, 2, 3], 2) == [[1, 2], [3, 0]]


class FixedTopics(torch.nn.Module):
    """Three words; weights that are what the input says."""

    num_topics = 1
    decoder = SimpleNamespace(output_weight=torch.zeros(4, 2))

    def __init__(self) -> None:
        super().__init__()
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def forward(self, src_tokens: torch.Tensor, features_only: bool) -> tuple[None, dict[str, Any]]:
        first = src_tokens / 10
        return None, {"topic_weights": torch.stack([first, 1 - first], dim=-1)}


def test_use_is_counted_by_the_token_that_follows() -> None:
    batch = {
        "net_input": {"src_tokens": torch.tensor([[2, 4, 9], [5, 9, 9]])},
        "target": torch.tensor([[3, 2, 1], [3, 1, 1]]),  # 1 is padding
    }
    counts = count_use(FixedTopics(), [batch, batch], padding_idx=1)
    expected = torch.tensor([[0, 0], [0, 0], [0.8, 1.2], [1.4, 2.6]], dtype=torch.float64)
    torch.testing.assert_close(counts, expected)
