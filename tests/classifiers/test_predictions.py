"""Sets are read whole and in order, and logits are those of every text alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import indexed_dataset

from fairseq_ext.classifiers.predictions import ExampleSet, load_model, logits_of, parameters_of
from tests import toy_task_data, toy_tasks
from tests.toy_task_data import COUNTS, write_model, write_task


def raw_set(path: Path) -> list[list[int]]:
    dataset = indexed_dataset.make_dataset(str(path), "mmap")
    return [dataset[number].tolist() for number in range(len(dataset))]


def test_texts_are_opened_and_in_the_order_of_the_data(tmp_path: Path) -> None:
    data = write_task(tmp_path / "films")
    examples = ExampleSet.load(data, "test", toy_tasks.POSITIONS)
    assert [text.tolist() for text in examples.texts] == [[0, *row] for row in raw_set(data / "input0/test")]
    labels = [row[0] - toy_task_data.FIRST_WORD for row in raw_set(data / "label/test")]
    assert examples.targets.tolist() == labels
    assert examples.targets.dtype == np.int64
    assert len(labels) == COUNTS["test"]


def test_pairs_are_joined_as_in_roberta(tmp_path: Path) -> None:
    data = write_task(tmp_path / "same", num_inputs=2)
    examples = ExampleSet.load(data, "valid", 100)
    pairs = list(zip(raw_set(data / "input0/valid"), raw_set(data / "input1/valid"), strict=True))
    # <s> a </s> </s> b </s>, but for tasks with token types
    assert [text.tolist() for text in examples.texts] == [[0, *one, 2, *other] for one, other in pairs]
    typed = ExampleSet.load(data, "valid", 100, separator=None)
    assert [text.tolist() for text in typed.texts] == [[0, *one, *other] for one, other in pairs]
    # Targets of a regression are its numbers.
    numbers = ExampleSet.load(write_task(tmp_path / "size", labels=()), "valid", 100).targets
    assert numbers.tolist() == [number / 4 for number in range(COUNTS["valid"])]


def test_logits_are_those_of_each_text_alone(tmp_path: Path) -> None:
    data = write_task(tmp_path / "films")
    model = load_model(write_model(tmp_path / "model.pt", "films"), data / "input0", cpu=True)
    texts = ExampleSet.load(data, "test", model.max_positions()).texts
    found = logits_of(model, "films", texts, batch_size=4)
    with torch.no_grad():
        alone = torch.cat([model(text[None], classification_head_name="films")[0] for text in texts])
    assert found.shape == (COUNTS["test"], 3)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, alone.numpy(), atol=2e-6)
    assert len(np.unique(found, axis=0)) > 5


WIDTH, FFN, LAYERS = 32, 64, 2
LAYER = 4 * WIDTH * (WIDTH + 1) + (FFN * WIDTH + FFN) + (WIDTH * FFN + WIDTH) + 4 * WIDTH
# Rows: the words, fairseq's four, <mask>; two positions stand before the first.
ENCODER = (toy_tasks.WORDS + 5 + toy_tasks.POSITIONS + 2) * WIDTH + 2 * WIDTH + LAYERS * LAYER
HEAD = WIDTH * (WIDTH + 1) + 3 * (WIDTH + 1)
NORMS = 2 * WIDTH * (2 * LAYERS + 1)
ADAPTERS = 2 * LAYERS * (2 * 8 * WIDTH + WIDTH + 8)


@pytest.mark.parametrize(
    ("options", "base_trained", "more"),
    [
        ({"tuning": "top", "top_layers": 1}, LAYER, 0),
        ({"tuning": "adapters", "bottleneck_dim": 8}, 0, NORMS + ADAPTERS),
    ],
)
def test_parameters_are_counted(tmp_path: Path, options: dict, base_trained: int, more: int) -> None:
    data = write_task(tmp_path / "films")
    checkpoint = write_model(tmp_path / "model.pt", "films", **options)
    assert parameters_of(checkpoint, data) == {
        "base": ENCODER,
        "base_trained": base_trained,
        "head": HEAD,
        "trained": base_trained + HEAD + more,
    }
