"""Sets are read whole and in order, logits are those of every text alone, and lines are labelled by them."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data import indexed_dataset

from fairseq_ext.base.errors import InputError
from fairseq_ext.classifiers.predictions import classify, load_model, logits_of, parameters_of, read_set, to_input
from fairseq_ext.text import encoders
from tests import toy_task_data, toy_tasks
from tests.toy_task_data import COUNTS, write_model, write_task
from tests.verbs import verb


def raw_set(path: Path) -> list[list[int]]:
    dataset = indexed_dataset.make_dataset(str(path), "mmap")
    return [dataset[number].tolist() for number in range(len(dataset))]


def test_pairs_are_joined_as_in_roberta(tmp_path: Path) -> None:
    data = write_task(tmp_path / "size", labels=(), num_inputs=2)
    texts, targets = read_set(data, "valid", 100)
    pairs = list(zip(raw_set(data / "input0/valid"), raw_set(data / "input1/valid"), strict=True))
    # <s> a </s> </s> b </s>, but for tasks with token types
    assert [text.tolist() for text in texts] == [[0, *one, 2, *other] for one, other in pairs]
    typed, _ = read_set(data, "valid", 100, separator=None)
    assert [text.tolist() for text in typed] == [[0, *one, *other] for one, other in pairs]
    # Targets of a regression are its numbers.
    assert targets.tolist() == [number / 4 for number in range(COUNTS["valid"])]


def test_texts_are_in_order_and_logits_those_of_each_alone(tmp_path: Path) -> None:
    data = write_task(tmp_path / "films")
    model = load_model(write_model(tmp_path / "model.pt", "films"), data / "input0", cpu=True)
    texts, targets = read_set(data, "test", model.max_positions())
    assert [text.tolist() for text in texts] == [[0, *row] for row in raw_set(data / "input0/test")]
    labels = [row[0] - toy_task_data.FIRST_WORD for row in raw_set(data / "label/test")]
    assert (targets.tolist(), targets.dtype) == (labels, np.int64)
    found = logits_of(model, "films", texts, batch_size=4)
    alone = torch.cat([toy_tasks.logits(model, "films", text[None]) for text in texts])
    assert (found.shape, found.dtype) == ((COUNTS["test"], 3), np.float32)
    np.testing.assert_allclose(found, alone.numpy(), atol=2e-6)
    assert len(np.unique(found, axis=0)) > 5


def test_lines_are_labelled_by_their_probabilities() -> None:
    model = toy_tasks.randomise(toy_tasks.make_model("films"), "films")
    assert to_input(model, "films", ["w0 w1", "w2"]).tolist() == [0, 4, 5, 2, 2, 6, 2]
    assert to_input(model, "films", ["w0"]).tolist() == [0, 4, 2]
    assert len(to_input(model, "films", [" ".join(["w0"] * 50)])) == toy_tasks.POSITIONS
    answers = list(classify(model, "films", ["w3 w4 w5 w6", "w0 w1\tw2", "w7"], iter, batch_size=2))
    probabilities = toy_tasks.logits(model, "films", torch.tensor([[0, 4, 5, 2, 2, 6, 2]])).softmax(-1)[0]
    best = int(probabilities.argmax())
    assert answers[1] == f"{toy_tasks.LABELS[best]}\t{probabilities[best]:.4f}"
    assert len(answers) == 3
    with pytest.raises(InputError, match="'books'"):
        next(classify(model, "books", ["w1"], iter))
    with pytest.raises(InputError, match="line 2: "):
        list(classify(model, "films", ["w1", "w1\tw2\tw3"], iter))


def test_the_classify_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_task(tmp_path / "films")
    checkpoint = write_model(tmp_path / "model.pt", "films")
    monkeypatch.setattr(encoders, "load_encoder", lambda folder: iter)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"w1 w2\nw3\n")))
    verb("classify")([str(checkpoint), "films", "--subwords", str(data / "input0"), "--cpu"])
    labels = [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert len(labels) == 2
    assert {*labels} <= {*toy_tasks.LABELS}


@pytest.mark.parametrize(
    ("options", "num_trained_layers", "added"),
    [
        ({"tuning": "top", "top_layers": 1}, 1, 0),
        # Five norms; in each of two layers, two adapters.
        ({"tuning": "adapters", "bottleneck_dim": 8}, 0, 5 * 2 * 32 + 4 * (2 * 8 * 32 + 32 + 8)),
    ],
)
def test_parameters_are_counted(tmp_path: Path, options: dict, num_trained_layers: int, added: int) -> None:
    data = write_task(tmp_path / "films")
    checkpoint = write_model(tmp_path / "model.pt", "films", **options)
    layer = 4 * 32 * (32 + 1) + (64 * 32 + 64) + (32 * 64 + 32) + 4 * 32
    # Rows: the words, fairseq's four, <mask>; two positions stand before the first.
    encoder = (toy_tasks.WORDS + 5 + toy_tasks.POSITIONS + 2) * 32 + 2 * 32 + 2 * layer
    head = 32 * (32 + 1) + 3 * (32 + 1)
    base_trained = num_trained_layers * layer
    assert parameters_of(checkpoint, data) == {
        "base": encoder,
        "base_trained": base_trained,
        "head": head,
        "trained": base_trained + head + added,
    }
