"""Gate logits from a bag of source subwords and pairs, against the formula."""

import math

import pytest
import torch

from fairseq_ext.modules.source_gate import SourceGate

PAD, EOS = 1, 2
SENTENCES = [[7, 5, 7, EOS], [4, EOS], [EOS], [6, 9, 8, 5, 4, EOS]]


@pytest.mark.parametrize("num_pairs", [0, 50])
def test_logits_are_the_scores_of_all_words_and_pairs(num_pairs: int) -> None:
    """Whatever side padding is on; a sentence without words is no reason for any adapter."""
    torch.manual_seed(1)
    gate = SourceGate(12, 3, num_pairs, (PAD, EOS)).eval()
    torch.nn.init.normal_(gate.weight)
    padding = [[PAD] * (6 - len(each)) for each in SENTENCES]
    left = gate(torch.tensor([pads + each for pads, each in zip(padding, SENTENCES, strict=True)]))
    right = gate(torch.tensor([each + pads for pads, each in zip(padding, SENTENCES, strict=True)]))
    for row, (*words, _) in enumerate(SENTENCES):
        columns = list(words)
        if num_pairs:
            columns += [12 + (a * 1_000_003 + b) % num_pairs for a, b in zip(words, words[1:], strict=False)]
        expected = 25 / math.sqrt(max(1, len(words))) * gate.weight[:, columns].sum(1)
        for logits in (left, right):
            torch.testing.assert_close(logits[0, row], expected)
