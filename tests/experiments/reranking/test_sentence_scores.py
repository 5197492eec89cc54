"""Scores of sentences are kept by model and text."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairseq_ext.experiments.reranking.measure import SentenceModel, score_texts


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
