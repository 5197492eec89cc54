"""The command that labels lines."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fairseq_ext.classifiers.predictions import classify, to_input
from fairseq_ext.corpora import encoders
from fairseq_ext.inputs.errors import InputError
from tests import toy_tasks
from tests.toy_task_data import write_model, write_task
from tests.verbs import verb


def words(lines: Iterable[str]) -> Iterator[str]:
    """The pieces of text that is of whole words."""
    yield from lines


@pytest.fixture
def model() -> Any:
    return toy_tasks.randomise(toy_tasks.make_model("films"), "films")


def test_labels_and_probabilities_are_those_of_the_head(model: Any) -> None:
    answers = list(classify(model, "films", ["w1 w2", "w3 w4 w5 w6", "w7"], words, batch_size=2))
    with torch.no_grad():
        logits, _ = model(torch.tensor([[0, 5, 6, 2]]), classification_head_name="films")
    probabilities = logits.softmax(-1)[0]
    best = int(probabilities.argmax())
    assert answers[0] == f"{toy_tasks.LABELS[best]}\t{probabilities[best]:.4f}"
    assert len(answers) == 3


def test_a_tab_parts_a_pair(model: Any) -> None:
    assert to_input(model, "films", ["w0 w1", "w2"]).tolist() == [0, 4, 5, 2, 2, 6, 2]
    assert to_input(model, "films", ["w0"]).tolist() == [0, 4, 2]
    assert len(to_input(model, "films", [" ".join(["w0"] * 50)])) == toy_tasks.POSITIONS
    with torch.no_grad():
        logits, _ = model(torch.tensor([[0, 4, 5, 2, 2, 6, 2]]), classification_head_name="films")
    (answer,) = classify(model, "films", ["w0 w1\tw2"], words)
    assert answer.endswith(f"{logits.softmax(-1).max():.4f}")


def test_mistakes_are_named(model: Any) -> None:
    with pytest.raises(InputError, match="'books'"):
        next(classify(model, "books", ["w1"], words))
    with pytest.raises(InputError, match="line 2: "):
        list(classify(model, "films", ["w1", "w1\tw2\tw3"], words))


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_task(tmp_path / "films")
    checkpoint = write_model(tmp_path / "model.pt", "films")
    monkeypatch.setattr(encoders, "load_encoder", lambda folder: words)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"w1 w2\nw3\n")))
    verb("classify")([str(checkpoint), "films", "--subwords", str(data / "input0"), "--cpu"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(line.partition("\t")[0] in toy_tasks.LABELS for line in lines)
