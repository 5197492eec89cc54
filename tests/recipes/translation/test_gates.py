"""What is made of gates written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.data.teacher_labels import label_path, write_probs
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation.gates import (
    AGREES,
    CLASSIFIER_CORRECT,
    CORRECT,
    Labels,
    gate_records,
    read_gates,
    read_labels,
    weight_of,
)

# Two domains; law has two test sentences, med one. An encoder and a decoder layer.
GATES = {
    0: {"encoder": [[0.75, 0.25]], "decoder": [[0.5, 0.5]]},  # law
    1: {"encoder": [[0.25, 0.75]], "decoder": [[0.125, 0.875]]},  # med
    2: {"encoder": [[1.0, 0.0]], "decoder": [[0.25, 0.75]]},  # law, then med
}
PROBS = {"law": [[0.9, 0.1], [0.2, 0.8]], "med": [[0.0, 1.0]]}  # the second sentence is taken for med


def write_gates(path: Path, more: Callable[[dict[str, Any]], dict[str, Any]] = lambda own: {}) -> Path:
    """Gates in the order in which fairseq translates: longest sentences first."""
    rows = [{"id": number, **GATES[number], **more(GATES[number])} for number in (2, 0, 1)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def labels(tmp_path: Path) -> Labels:
    (tmp_path / "domains.txt").write_text("law\nmed\n")
    for name, rows in PROBS.items():
        write_probs(label_path(tmp_path / "teacher", name, "test"), np.array(rows))
    return read_labels(tmp_path, tmp_path / "teacher")


def values_of(gates: Path, labels: Labels) -> dict[tuple[str, str], float]:
    """The records of a run, by metric and domain."""
    records = list(gate_records("gad@2", gates, labels))
    assert {(record.system, record.run) for record in records} == {("gad", "gad@2")}
    return {(record.metric, record.domain): record.value for record in records}


def test_agreement_and_mean_weights(tmp_path: Path, labels: Labels) -> None:
    values = values_of(write_gates(tmp_path / "gates.jsonl"), labels)
    shares = {
        AGREES: {"encoder 1": 66.67, "decoder 1": 100, "mean": pytest.approx(83.335)},
        CORRECT: {"encoder 1": 33.33, "decoder 1": 66.67, "mean": 50},
    }
    for metric, expected in shares.items():
        assert {domain: value for (name, domain), value in values.items() if name == metric} == expected
    assert values[CLASSIFIER_CORRECT, ""] == 66.67
    weights = {("law", "law"): 0.40625, ("law", "med"): 0.59375, ("med", "law"): 0.625, ("med", "med"): 0.375}
    assert {key: values[weight_of(key[1]), key[0]] for key in weights} == weights


def test_inputs_alone_are_counted_where_gates_see_several(tmp_path: Path, labels: Labels) -> None:
    def alone(own: dict[str, Any]) -> dict[str, Any]:
        return {"source": [[0.1, 0.9]], "encoder_states": own["decoder"], "decoder_states": own["encoder"]}

    values = values_of(write_gates(tmp_path / "several.jsonl", alone), labels)
    assert values[f"{AGREES}, source alone", "mean"] == 66.67
    assert values[f"{CORRECT}, source alone", "mean"] == 33.33
    assert (f"{AGREES}, source alone", "encoder 1") not in values  # the source has no layers
    states = [values[f"{CORRECT}, states alone", layer] for layer in ("encoder 1", "decoder 1")]
    assert states == [values[CORRECT, "decoder 1"], values[CORRECT, "encoder 1"]]


@pytest.mark.parametrize("text", ['{"id": 0, "encoder": [[1]], "decoder": [[1]]}', '{"id": 1}', "nonsense"])
def test_mistakes_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gates.jsonl"
    path.write_text(f"{text}\n")
    with pytest.raises(InputError, match=f"{path}, line 1: "):
        read_gates(path, 3, 2)
    path.write_text(json.dumps({"id": 1, **GATES[1]}) + "\n")
    with pytest.raises(InputError, match=f"{path}: does not match the 3 sentences"):
        read_gates(path, 3, 2)
