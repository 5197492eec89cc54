from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.reranking.weights import Weights
from tests.reranking.made_up import make_list


def test_weights_are_read_as_they_were_written(tmp_path: Path) -> None:
    weights = Weights({"model": 0.1 + 0.2, "lm": -1e-17}, {"lm": "abc"}, {"seed": 1})
    weights.write(tmp_path / "weights.json")
    assert Weights.read(tmp_path / "weights.json") == weights


def test_weights_follow_the_order_of_the_list() -> None:
    nbest, _, _ = make_list(seed=1)
    assert nbest.names == ["model", "f1", "f2"]
    found = Weights({"f2": 3.0, "model": 1.0}).for_list(nbest, {}, Path("weights.json"))
    assert found.tolist() == [1, 0, 3]


def test_a_feature_that_the_list_lacks_is_named() -> None:
    nbest, _, _ = make_list(seed=1)
    with pytest.raises(InputError, match="weights.json: feature 'lm' is not in the list, which has model, f1, f2"):
        Weights({"lm": 3.0}).for_list(nbest, {}, Path("weights.json"))


@pytest.mark.parametrize("sources", [{"f1": "other"}, {}])
def test_another_language_model_is_refused(sources: dict[str, str]) -> None:
    nbest, _, _ = make_list(seed=1)
    weights = Weights({"f1": 1.0}, {"f1": "this"})
    assert weights.for_list(nbest, {"f1": "this"}, Path("w.json")).tolist() == [0, 1, 0]
    with pytest.raises(InputError, match="w.json: the weight of 'f1' was tuned for another language model"):
        weights.for_list(nbest, sources, Path("w.json"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"weights": {}}', '{"weights": {"a": "b"}}', '{"weights": {"a": NaN}}', '{"weights": 3}'),
        *('{"weights": {"a": "1.5"}}', '{"weights": {"a": true}}', '{"weights": {"a": 1}, "sources": [1]}'),
        '{"weights": {"a": 1' + "0" * 400 + "}}",
        '{"weights": {"a": 1' + "0" * 5000 + "}}",
        '{"weights": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_what_is_no_weights_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "weights.json"
    path.write_text(text)
    with pytest.raises(InputError, match="weights.json: "):
        Weights.read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none.json: not found; expected"):
        Weights.read(tmp_path / "none.json")
