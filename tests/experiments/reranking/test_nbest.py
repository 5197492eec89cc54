"""N-best lists: what is read of them, and which hypothesis is chosen."""

from pathlib import Path

import numpy as np

from fairseq_ext.experiments.reranking.nbest import NBest, read_nbest

PRINTED = """\
2024-01-01 | INFO | fairseq_cli.generate | loading model
S-1\tzwei
T-1\ttwo
H-1\t-0.5\t▁two
D-1\t-0.5\ttwo
P-1\t-0.4000 -0.6000
S-0\tdas Haus
H-0\t-0.25\t▁the ▁house
D-0\t-0.25\tthe house
P-0\t-0.2500 -0.2500 -0.2500
H-0\t-0.75\t▁house
D-0\t-0.75\thouse
P-0\t-0.5000 -1.0000
Generate test with beam=5: BLEU4 = 1.0
"""


def test_texts_and_features_are_read_and_added_to(tmp_path: Path) -> None:
    (tmp_path / "nbest.txt").write_text(PRINTED, encoding="utf-8")
    nbest = read_nbest(tmp_path / "nbest.txt")
    assert nbest.texts == [["the house", "house"], ["two"]]
    assert nbest.names == ["model", "model_sum"]
    assert nbest.features.tolist() == [[[-0.25, -0.75], [-0.75, -1.5]], [[-0.5, -1.0], [0, 0]]]
    assert nbest.is_hypothesis.tolist() == [[True, True], [True, False]]
    assert nbest.all_texts() == ["the house", "house", "two"]
    more = nbest.with_features({"lm": [1.0, 2.0, 3.0], "words": [4.0, 5.0, 6.0]})
    assert more.names[-2:] == ["lm", "words"]
    assert more.features[..., -2:].tolist() == [[[1, 4], [2, 5]], [[3, 6], [0, 0]]]
    assert more.without({"lm", "words"}).features.tolist() == nbest.features.tolist()


def test_of_equal_scores_the_first_is_best() -> None:
    nbest = NBest.of([["a", "b", "c"]], {"f": [1.0, 2.0, 2.0]})
    assert [nbest.best(np.array([weight])).tolist() for weight in (1.0, 0.0)] == [[1], [0]]
