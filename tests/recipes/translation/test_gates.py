"""What is made of gates written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.data.teacher_labels import label_path, write_probs
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation.gates import ClassifiedSentences, read_gates, summarise_gates

# Two domains; law has two test sentences, med one. An encoder and a decoder layer.
GATES = {
    0: {"encoder": [[0.75, 0.25]], "decoder": [[0.5, 0.5]]},  # law
    1: {"encoder": [[0.25, 0.75]], "decoder": [[0.125, 0.875]]},  # med, the classifier: law
    2: {"encoder": [[1.0, 0.0]], "decoder": [[0.25, 0.75]]},  # law, then med; the classifier: med
}
PROBS = {"law": [[0.9, 0.1], [0.8, 0.2]], "med": [[0.0, 1.0]]}


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    """Gates in the order in which fairseq translates: longest sentences first."""
    path = tmp_path / "gates.jsonl"
    path.write_text("".join(json.dumps({"id": number, **GATES[number]}) + "\n" for number in (2, 0, 1)))
    return path


@pytest.fixture
def sentences(tmp_path: Path) -> ClassifiedSentences:
    (tmp_path / "domains.txt").write_text("law\nmed\n")
    for name, rows in PROBS.items():
        write_probs(label_path(tmp_path / "teacher", name, "test"), np.array(rows))
    return ClassifiedSentences.read(tmp_path, tmp_path / "teacher")


def test_summary(gates: Path, sentences: ClassifiedSentences) -> None:
    assert summarise_gates(read_gates(gates, 3, 2), sentences) == {
        "domains": ["law", "med"],
        "layers": ["encoder 1", "decoder 1"],
        "weights": {"law": [[0.5, 0.5], [0.3125, 0.6875]], "med": [[1.0, 0.0], [0.25, 0.75]]},
        "agreement": [0.3333, 0.6667],
        "correct": [0.3333, 0.6667],
        "teacher_correct": 1.0,
    }


def test_inputs_alone_are_counted_where_gates_see_several(tmp_path: Path, sentences: ClassifiedSentences) -> None:
    path, lines = tmp_path / "several.jsonl", []
    for number, own in GATES.items():
        parts = {"source": [[0.1, 0.9]], "encoder_states": own["decoder"], "decoder_states": own["encoder"]}
        lines.append(json.dumps({"id": number, **own, **parts}) + "\n")
    path.write_text("".join(lines))
    record = summarise_gates(read_gates(path, 3, 2), sentences)
    assert record["source"] == {"agreement": [0.3333], "correct": [0.3333]}
    assert record["states"]["correct"] == record["correct"][::-1] == [0.6667, 0.3333]


def test_agreement_is_with_the_classifier_not_with_the_truth(gates: Path) -> None:
    sentences = ClassifiedSentences(["law", "med"], np.array([0, 0, 1]), np.array([[0.1, 0.9], [0.2, 0.8], [0.0, 1.0]]))
    record = summarise_gates(read_gates(gates, 3, 2), sentences)
    # Sentences 0, 1, 2: the encoder says law, med, law; the decoder law, med, med; the classifier med.
    assert (record["agreement"], record["correct"]) == ([0.3333, 0.6667], [0.3333, 0.6667])
    assert record["teacher_correct"] == 0.3333


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"id": 0, "encoder": [[1]], "decoder": [[1]]}\n', ", line 1"),
        ('{"id": 0, "encoder": [[1, 0]], "decoder": [[1, 0]]}\nnonsense\n', ", line 2"),
        ('{"id": 1, "encoder": [[1, 0]], "decoder": [[1, 0]]}\n', ""),
        ("", ""),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "gates.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=f"{path}{place}: "):
        read_gates(path, 3, 2)
