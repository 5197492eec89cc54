"""N-best lists: what is read of both formats, and damage is named by its line."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.reranking.nbest import Hypothesis, NBest, read_nbest

MOSES = """\
0 ||| the house ||| LM0= -3.5 TM0= -1 -2 WordPenalty0= -2 ||| -1.5
0 ||| a house ||| LM0= -4 TM0= -1.5 -0.25 WordPenalty0= -2 ||| -1.75 ||| 0-0 1-1
1 ||| keep out ||| LM0= -2 TM0= 0 -1 WordPenalty0= -2 ||| -0.5
"""
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
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_moses_list(tmp_path: Path) -> None:
    nbest = read_nbest(write_list(tmp_path / "list.gz", MOSES))
    assert nbest.texts == [["the house", "a house"], ["keep out"]]
    assert nbest.names == ["LM0", "TM0.1", "TM0.2", "WordPenalty0", "score"]
    assert nbest.features[0].tolist() == [[-3.5, -1, -2, -2, -1.5], [-4, -1.5, -0.25, -2, -1.75]]
    assert nbest.features[1].tolist() == [[-2, 0, -1, -2, -0.5], [0] * 5]
    assert nbest.is_hypothesis.tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize(
    ("text", "texts", "names"),
    [
        ("0 ||| a ||| lm: -1 tm: -2 -3 ||| -6\n", ["a"], ["lm", "tm.1", "tm.2", "score"]),
        ("0 |||  |||  ||| -6\n0 ||| a\u2028b |||  ||| -7\n", ["", "a\u2028b"], ["score"]),
        (FAIRSEQ, ["the house", "house"], ["model", "model_sum"]),
        (FAIRSEQ.replace("\n", "\r\n"), ["the house", "house"], ["model", "model_sum"]),
        (FAIRSEQ.replace("D-", "X-"), ["▁the ▁house", "▁house"], ["model", "model_sum"]),
    ],
)
def test_other_forms_are_read_as_well(tmp_path: Path, text: str, texts: list[str], names: list[str]) -> None:
    nbest = read_nbest(write_list(tmp_path / "list.gz", text))
    assert nbest.texts[0] == texts
    assert nbest.names == names
    if text.startswith(FAIRSEQ[:9]):
        assert nbest.features.tolist() == [[[-0.25, -0.75], [-0.75, -1.5]], [[-0.5, -1.0], [0, 0]]]


FIRST, SECOND, THIRD = MOSES.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("hello\n", ""),
        (FIRST + "x" + SECOND, "line 2"),
        (FIRST + THIRD.replace("1", "2", 1), "sentence 1"),
        (FIRST + SECOND.replace("TM0", "TM1"), "line 2"),
        (FIRST + SECOND.replace("-1.5", "many"), "line 2"),
        (FAIRSEQ.replace("H-1\t-0.5\t▁two", "H-1\t-0.5"), "line 4"),
        (FAIRSEQ.replace("D-0\t-0.75\thouse\n", ""), "sentence 0"),
        (FAIRSEQ.replace("-0.6000", "-1e308 -1e308"), "line 6"),
        (FAIRSEQ.replace("-1\t", "-2\t"), "sentence 1"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: str, place: str) -> None:
    path = write_list(tmp_path / "damaged.gz", text)
    with pytest.raises(InputError, match=f"^{path}.*{place}.*$"):
        read_nbest(path)


def test_features_are_added_to_the_right_hypotheses(tmp_path: Path) -> None:
    nbest = read_nbest(write_list(tmp_path / "list.gz", MOSES))
    assert nbest.all_texts() == ["the house", "a house", "keep out"]
    more = nbest.with_features({"lm": np.array([1.0, 2.0, 3.0]), "words": np.array([4.0, 5.0, 6.0])})
    assert more.names[-2:] == ["lm", "words"]
    assert more.features[..., -2:].tolist() == [[[1, 4], [2, 5]], [[3, 6], [0, 0]]]
    assert more.without({"lm", "words"}).features.tolist() == nbest.features.tolist()
    with pytest.raises(InputError):
        nbest.with_features({"LM0": np.zeros(3)})


def test_of_equal_scores_the_first_is_best() -> None:
    nbest = NBest.of([[Hypothesis(text, {"f": value}) for text, value in (("a", 1.0), ("b", 2.0), ("c", 2.0))]])
    assert nbest.best(np.array([1.0])).tolist() == [1]
    assert nbest.best(np.array([0.0])).tolist() == [0]
