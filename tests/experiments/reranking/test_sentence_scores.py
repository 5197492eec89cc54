"""Scores of sentences are sums by hand, whatever the model, the batch, or what was scored before."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from fairseq_ext.experiments.encoding import LanguageModel
from fairseq_ext.experiments.reranking.measure import SentenceModel, score_texts
from tests.experiments import small_lm

TEXTS = ["w1 w2 w3", "", "w4", "w1 w2 w3 unknown w5 w6", "w4", "w9 w8"]


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    data = small_lm.make_data(tmp_path_factory.mktemp("data"))
    checkpoint = small_lm.make_checkpoint(data / "lm.pt", data, "dagru_lm_tiny", combination="none")
    return LanguageModel.load(checkpoint, data, cpu=True)


def by_hand(lm: LanguageModel, text: str) -> float:
    """One word after another, each from all that is before it."""
    numbers = [lm.dictionary.eos(), *(lm.dictionary.index(word) for word in text.split()), lm.dictionary.eos()]
    total = 0.0
    for end in range(1, len(numbers)):
        logits = lm.model(torch.tensor([numbers[:end]]))[0][0, -1]
        total += torch.log_softmax(logits.double(), -1)[numbers[end]].item()
    return total


@pytest.mark.parametrize("max_tokens", [1, 12, 4096])
def test_score_is_the_sum_over_words_and_end(lm: LanguageModel, max_tokens: int) -> None:
    with torch.inference_mode():
        expected = [by_hand(lm, text) for text in TEXTS]
    assert lm.score_lines(TEXTS, max_tokens).tolist() == pytest.approx(expected, rel=1e-5)


def test_scores_are_kept_by_content(tmp_path: Path) -> None:
    path, folder, scored = tmp_path / "model", tmp_path / "scores", list[list[str]]()
    path.write_text("one")

    def score(texts: Sequence[str]) -> np.ndarray:
        scored.append(list(texts))
        return np.array([float(len(text)) for text in texts])

    model = SentenceModel("kn", [path], score)
    assert score_texts(model, ["aa", "b", "aa", "cccc"], folder).tolist() == [2, 1, 2, 4]
    assert score_texts(model, ["b", "b"], folder).tolist() == [1, 1]  # another list
    assert score_texts(model, ["aa", "b", "cccc", "aa"], folder).tolist() == [2, 1, 4, 2]  # the same texts
    path.write_text("two")
    score_texts(model, ["b"], folder)
    assert scored == [["aa", "b", "cccc"], ["b"], ["b"]]
