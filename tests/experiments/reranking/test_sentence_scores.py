"""Scores of sentences are sums by hand, whatever the model, the batch, or what was scored before."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fairseq_ext.experiments.encoding import LanguageModel
from fairseq_ext.experiments.reranking.fairseq_scores import FairseqScores
from fairseq_ext.experiments.reranking.measure import Model, score_texts
from tests.experiments import small_lm

TEXTS = ["w1 w2 w3", "", "w4", "w1 w2 w3 unknown w5 w6", "w4", "w9 w8"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_lm.make_data(tmp_path_factory.mktemp("data"))


def by_hand(lm: LanguageModel, text: str) -> float:
    """One word after another, each from all that is before it."""
    numbers = [lm.dictionary.eos(), *(lm.dictionary.index(word) for word in text.split()), lm.dictionary.eos()]
    total = 0.0
    for end in range(1, len(numbers)):
        logits = lm.model(torch.tensor([numbers[:end]]))[0][0, -1]
        total += torch.log_softmax(logits.double(), -1)[numbers[end]].item()
    return total


@pytest.mark.parametrize(
    ("arch", "options"),
    [("transformer_lm_tiny", {}), ("transformer_lm_topic_tiny", {}), ("dagru_lm_tiny", {"combination": "none"})],
)
def test_score_is_the_sum_over_words_and_end(data: Path, tmp_path: Path, arch: str, options: dict[str, str]) -> None:
    checkpoint = small_lm.make_checkpoint(tmp_path / "lm.pt", data, arch, **options)
    score = FairseqScores(LanguageModel.load(checkpoint, data, cpu=True), iter)
    with torch.inference_mode():
        expected = pytest.approx(np.array([by_hand(score.lm, text) for text in TEXTS]), rel=1e-5)
    for max_tokens in (1, 12, 4096):
        assert replace(score, max_tokens=max_tokens)(TEXTS) == expected
    # Subwords are what the model reads.
    halves = replace(score, encoder=lambda lines: (line.replace("+", " ") for line in lines))
    assert halves([text.replace(" ", "+") for text in TEXTS]) == expected


def test_every_word_of_a_long_sentence_counts_once(data: Path, tmp_path: Path) -> None:
    path = small_lm.make_checkpoint(tmp_path / "short.pt", data, tokens_per_sample=5)
    score = FairseqScores(LanguageModel.load(path, data, cpu=True), iter)
    tokens = torch.arange(10, 23)
    windows = list(score._windows(tokens))
    assert [len(inputs) for inputs, _ in windows] == [5, 5, 3]
    assert torch.cat([targets for _, targets in windows]).equal(tokens)
    assert torch.cat([inputs for inputs, _ in windows])[1:].equal(tokens[:-1])
    assert np.isfinite(score([" ".join(["w1"] * 50)])).all()


def test_scores_are_kept_by_content(tmp_path: Path) -> None:
    path, folder, scored = tmp_path / "model", tmp_path / "scores", list[list[str]]()
    path.write_text("one")

    def score(texts: Sequence[str]) -> np.ndarray:
        scored.append(list(texts))
        return np.array([float(len(text)) for text in texts])

    model = Model("kn", [path], lambda: score)
    assert score_texts(model, ["aa", "b", "aa", "cccc"], folder).tolist() == [2, 1, 2, 4]
    assert score_texts(model, ["b", "b"], folder).tolist() == [1, 1]  # another list
    assert score_texts(model, ["aa", "b", "cccc", "aa"], folder).tolist() == [2, 1, 4, 2]  # the same texts
    path.write_text("two")
    score_texts(model, ["b"], folder)
    assert scored == [["aa", "b", "cccc"], ["b"], ["b"]]
