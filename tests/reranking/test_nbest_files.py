from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.reranking.nbest import Hypothesis, NBest
from fairseq_ext.reranking.nbest_files import read_nbest
from tests.reranking.made_up import FAIRSEQ, MOSES, write_list


@pytest.mark.parametrize("name", ["list", "list.gz"])
def test_moses_list(tmp_path: Path, name: str) -> None:
    nbest = read_nbest(write_list(tmp_path / name, MOSES))
    assert nbest.texts == [["the house", "a house"], ["keep out"]]
    assert nbest.names == ["LM0", "TM0.1", "TM0.2", "WordPenalty0", "score"]
    assert nbest.features[0].tolist() == [[-3.5, -1, -2, -2, -1.5], [-4, -1.5, -0.25, -2, -1.75]]
    assert nbest.features[1, 0].tolist() == [-2, 0, -1, -2, -0.5]
    assert nbest.is_hypothesis.tolist() == [[True, True], [True, False]]


def test_old_moses_list_names_features_with_colons(tmp_path: Path) -> None:
    nbest = read_nbest(write_list(tmp_path / "list", "0 ||| a ||| lm: -1 tm: -2 -3 ||| -6\n"))
    assert nbest.names == ["lm", "tm.1", "tm.2", "score"]


def test_moses_list_may_have_empty_hypotheses_and_no_features(tmp_path: Path) -> None:
    nbest = read_nbest(write_list(tmp_path / "list", "0 |||  |||  ||| -6\n0 ||| a\u2028b |||  ||| -7\n"))
    assert nbest.texts == [["", "a\u2028b"]]
    assert nbest.names == ["score"]


@pytest.mark.parametrize("name", ["generate.txt", "generate.txt.gz"])
def test_fairseq_output(tmp_path: Path, name: str) -> None:
    nbest = read_nbest(write_list(tmp_path / name, FAIRSEQ))
    assert nbest.texts == [["the house", "house"], ["two"]]
    assert nbest.names == ["model", "model_sum"]
    assert nbest.features[0].tolist() == [[-0.25, -0.75], [-0.75, -1.5]]
    assert nbest.features[1, 0].tolist() == [-0.5, -1.0]


def test_fairseq_output_without_detokenised_lines(tmp_path: Path) -> None:
    text = "".join(line for line in FAIRSEQ.splitlines(keepends=True) if not line.startswith("D-"))
    assert read_nbest(write_list(tmp_path / "list", text)).texts == [["▁the ▁house", "▁house"], ["▁two"]]


FIRST, SECOND, THIRD = MOSES.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("hello\n", "no n-best list; give one of Moses"),
        (FIRST + "0 ||| the house\n", "line 2: is not 'id"),
        (FIRST + "x" + SECOND, "line 2: does not start with the number of a sentence but 'x0'"),
        (FIRST + THIRD.replace("1", "2", 1), "line 2: belongs to sentence 2 where 1 must follow"),
        (THIRD, "line 1: belongs to sentence 1 where 0 must follow"),
        (FIRST + THIRD + SECOND, "line 3: belongs to sentence 0 where 2 must follow"),
        (FIRST + SECOND.replace("TM0", "TM1"), "line 2: has other features than line 1"),
        (FIRST + SECOND.replace("-1.5", "many"), "line 2: 'many' is no value of a feature"),
        (FIRST + SECOND.replace("LM0= ", ""), "line 2: '-4' is no value"),
        (FIRST + SECOND.replace("-4", ""), "line 2: the feature 'LM0' has no value"),
        (FIRST + SECOND.replace("TM0=", "LM0="), "line 2: has the feature 'LM0' twice"),
        (FIRST + SECOND.replace("-1.75", "nan"), "line 2: its score 'nan' is no number"),
        (FIRST.replace("LM0", "score"), "line 1: has a feature named 'score'"),
        (FAIRSEQ.replace("H-1\t-0.5\t▁two", "H-1\t-0.5"), "line 4: is not 'H-ID', a number and a text"),
        (FAIRSEQ.replace("H-1\t-0.5\t▁two", "H-1"), "line 4: is cut off"),
        (FAIRSEQ.replace("D-0\t-0.75\thouse\n", ""), "line 8: starts a sentence with 2 H-, 1 D- and 2 P- lines"),
        (FAIRSEQ.replace("-0.6000", "?"), "line 6: has something else than numbers"),
        (FAIRSEQ.replace("-0.6000", "-1e308 -1e308"), "line 6: has something else than numbers"),
        ("9" * 5000 + FIRST[1:], "line 1: does not start with the number of a sentence but '9999"),
        (FAIRSEQ.replace("H-1\t", "H-" + "9" * 5000 + "\t"), "line 4: is cut off or damaged"),
        (FAIRSEQ.replace("-1\t", "-2\t"), "sentence 1 is missing, the last one is 2"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = write_list(tmp_path / "damaged.list", text)
    with pytest.raises(InputError) as error:
        read_nbest(path)
    assert str(error.value).startswith(f"{path}")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_list_with_one_long_sentence_among_many_asks_for_no_more_memory_than_there_is() -> None:
    one = Hypothesis("a", {"f": 1.0})
    sentences = [[one] * 30_000, *([one] for _ in range(30_000))]
    with pytest.raises(
        InputError, match="has 30001 sentences of up to 30000 hypotheses with 1 features each, too many"
    ):
        NBest.of(sentences)


@pytest.mark.parametrize("text", [MOSES, FAIRSEQ])
def test_carriage_returns_at_the_ends_of_lines_do_not_matter(tmp_path: Path, text: str) -> None:
    unix, windows = (write_list(tmp_path / name, own) for name, own in (("a", text), ("b", text.replace("\n", "\r\n"))))
    assert read_nbest(windows).texts == read_nbest(unix).texts


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(FIRST.encode() + b"0 ||| \xff ||| ||| 1\n")
    with pytest.raises(InputError, match="line 2: byte 7 is not UTF-8"):
        read_nbest(path)


def test_a_list_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list.gz", MOSES)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="damaged or cut off after line"):
        read_nbest(path)


def test_features_are_added_to_the_right_hypotheses(tmp_path: Path) -> None:
    nbest = read_nbest(write_list(tmp_path / "list", MOSES))
    assert nbest.all_texts() == ["the house", "a house", "keep out"]
    more = nbest.with_features({"lm": np.array([1.0, 2.0, 3.0]), "words": np.array([4.0, 5.0, 6.0])})
    assert more.names[-2:] == ["lm", "words"]
    assert more.features[..., -2:].tolist() == [[[1, 4], [2, 5]], [[3, 6], [0, 0]]]
    with pytest.raises(InputError, match="feature LM0: is in the n-best list already"):
        nbest.with_features({"LM0": np.zeros(3)})
