"""Gate logits from a bag of source subwords and pairs, against the formula."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fairseq_ext.modules.source_gate import SourceGate

PAD, EOS = 1, 2
SENTENCES = [[7, 5, 7, EOS], [4, EOS], [6, 9, 8, 5, 4, EOS]]


def batch(sentences: list[list[int]], pads_left: bool = True) -> Tensor:
    longest = max(map(len, sentences))
    rows = [
        [PAD] * (longest - len(each)) + each if pads_left else each + [PAD] * (longest - len(each))
        for each in sentences
    ]
    return torch.tensor(rows)


def make_gate(num_pairs: int, **options: float) -> SourceGate:
    torch.manual_seed(1)
    gate = SourceGate(12, 3, num_pairs, (PAD, EOS), **options).eval()
    torch.nn.init.normal_(gate.weight)
    return gate


@pytest.mark.parametrize("num_pairs", [0, 50])
def test_logits_are_the_scores_of_all_words_and_pairs(num_pairs: int) -> None:
    gate = make_gate(num_pairs)
    logits = gate(batch(SENTENCES))
    for row, sentence in enumerate(SENTENCES):
        words = sentence[:-1]
        columns = list(words)
        if num_pairs:
            columns += [12 + (a * 1_000_003 + b) % num_pairs for a, b in zip(words, words[1:], strict=False)]
        expected = 25 / math.sqrt(len(words)) * gate.weight[:, columns].sum(1)
        torch.testing.assert_close(logits[0, row], expected)


def test_padding_on_either_side_does_not_matter() -> None:
    gate = make_gate(50)
    torch.testing.assert_close(gate(batch(SENTENCES)), gate(batch(SENTENCES, pads_left=False)))
    alone = torch.cat([gate(batch([each])) for each in SENTENCES], 1)
    torch.testing.assert_close(gate(batch(SENTENCES)), alone)


def test_a_sentence_without_words_is_no_reason_for_any_adapter() -> None:
    assert not make_gate(50)(torch.tensor([[PAD, EOS]])).any()
