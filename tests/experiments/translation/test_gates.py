"""What is made of gates written by hand."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.data.teacher_labels import label_path, write_probs, write_teacher_record
from fairseq_ext.experiments.metrics.records import Records
from fairseq_ext.experiments.translation.gates import (
    AGREES,
    CLASSIFIER_CORRECT,
    CORRECT,
    WEIGHT,
    Labels,
    gate_records,
    read_labels,
)
from fairseq_ext.text.text_files import write_lines

# Two domains; law has two test sentences, med one. An encoder and a decoder layer.
GATES = {
    0: {"encoder": [[0.75, 0.25]], "decoder": [[0.5, 0.5]]},  # law
    1: {"encoder": [[0.25, 0.75]], "decoder": [[0.125, 0.875]]},  # med
    2: {"encoder": [[1.0, 0.0]], "decoder": [[0.25, 0.75]]},  # law, then med
}
PROBS = {"law": [[0.9, 0.1], [0.2, 0.8]], "med": [[0.0, 1.0]]}  # the second sentence is taken for med


def write_gates(path: Path, gates: Mapping[int, Any] = GATES) -> Path:
    """Gates in the order in which fairseq translates: longest sentences first."""
    write_lines(path, [json.dumps({"id": number, **gates[number]}) for number in sorted(gates, key=(2, 0, 1).index)])
    return path


@pytest.fixture
def labels(tmp_path: Path) -> Labels:
    write_lines(tmp_path / "domains.txt", PROBS)
    for name, rows in PROBS.items():
        write_probs(label_path(tmp_path / "teacher", name, "test"), np.array(rows))
    write_teacher_record(tmp_path / "teacher", list(PROBS), "tfidf", {})
    return read_labels(tmp_path, tmp_path / "teacher")


def test_agreement_and_mean_weights(tmp_path: Path, labels: Labels) -> None:
    records = Records(list(gate_records("gad@2", write_gates(tmp_path / "gates.jsonl"), labels)))
    assert {(record.system, record.run) for record in records} == {("gad", "gad@2")}
    layers = ("encoder 1", "decoder 1", "mean")
    agrees, correct = ([records.value("gad", name, layer=layer) for layer in layers] for name in (AGREES, CORRECT))
    assert agrees == [66.67, 100, pytest.approx(83.335)]
    assert correct == [33.33, 66.67, 50]
    assert records.value("gad", CLASSIFIER_CORRECT) == 66.67
    weights = {("law", "law"): 0.40625, ("law", "med"): 0.59375, ("med", "law"): 0.625, ("med", "med"): 0.375}
    assert {(true, gate): records.value("gad", WEIGHT, true, gate=gate) for true, gate in weights} == weights


def test_inputs_alone_are_counted_where_gates_see_several(tmp_path: Path, labels: Labels) -> None:
    gates = {
        number: {**own, "source": [[0.1, 0.9]], "encoder_states": own["decoder"], "decoder_states": own["encoder"]}
        for number, own in GATES.items()
    }
    records = Records(list(gate_records("gad@2", write_gates(tmp_path / "several.jsonl", gates), labels)))
    assert records.value("gad", AGREES, layer="mean", alone="source") == 66.67
    assert records.value("gad", CORRECT, layer="mean", alone="source") == 33.33
    assert records.value("gad", AGREES, layer="encoder 1", alone="source") is None  # the source has no layers
    for layer, other in (("encoder 1", "decoder 1"), ("decoder 1", "encoder 1")):
        expected = records.value("gad", CORRECT, layer=other)
        assert records.value("gad", CORRECT, layer=layer, alone="states") == expected
