"""N-best lists: what is read of them, and damage is named by its line."""

from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.reranking.nbest import Hypothesis, NBest, read_nbest

FAIRSEQ = """\
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


def write_list(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        (FAIRSEQ, ["the house", "house"]),
        (FAIRSEQ.replace("\n", "\r\n"), ["the house", "house"]),
        (FAIRSEQ.replace("D-", "X-"), ["▁the ▁house", "▁house"]),
    ],
)
def test_texts_and_features_are_read(tmp_path: Path, text: str, texts: list[str]) -> None:
    nbest = read_nbest(write_list(tmp_path / "list", text))
    assert nbest.texts[0] == texts
    assert nbest.names == ["model", "model_sum"]
    assert nbest.features.tolist() == [[[-0.25, -0.75], [-0.75, -1.5]], [[-0.5, -1.0], [0, 0]]]
    assert nbest.is_hypothesis.tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("hello\n", "fairseq-generate --nbest"),
        (FAIRSEQ.replace("H-1\t-0.5\t▁two", "H-1\t-0.5"), "line 4"),
        (FAIRSEQ.replace("D-0\t-0.75\thouse\n", ""), "sentence 0"),
        (FAIRSEQ.replace("-0.6000", "-1e308 -1e308"), "line 6"),
        (FAIRSEQ.replace("-1\t", "-2\t"), "sentence 1"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: str, place: str) -> None:
    path = write_list(tmp_path / "damaged", text)
    with pytest.raises(InputError, match=f"^{path}.*{place}.*$"):
        read_nbest(path)


def test_features_are_added_to_the_right_hypotheses(tmp_path: Path) -> None:
    nbest = read_nbest(write_list(tmp_path / "list", FAIRSEQ))
    assert nbest.all_texts() == ["the house", "house", "two"]
    more = nbest.with_features({"lm": np.array([1.0, 2.0, 3.0]), "words": np.array([4.0, 5.0, 6.0])})
    assert more.names[-2:] == ["lm", "words"]
    assert more.features[..., -2:].tolist() == [[[1, 4], [2, 5]], [[3, 6], [0, 0]]]
    assert more.without({"lm", "words"}).features.tolist() == nbest.features.tolist()
    with pytest.raises(InputError):
        nbest.with_features({"model": np.zeros(3)})


def test_of_equal_scores_the_first_is_best() -> None:
    nbest = NBest.of([[Hypothesis(text, {"f": value}) for text, value in (("a", 1.0), ("b", 2.0), ("c", 2.0))]])
    assert nbest.best(np.array([1.0])).tolist() == [1]
    assert nbest.best(np.array([0.0])).tolist() == [0]
