"""Distances between domains, gates written by hand, and the parameters of a tiny model counted by hand."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairseq_ext.data.teacher_labels import label_path, write_probs, write_teacher_record
from fairseq_ext.experiments.metrics.records import Records
from fairseq_ext.experiments.translation.analyses import (
    AGREES,
    CLASSIFIER_CORRECT,
    CORRECT,
    WEIGHT,
    count_parameters,
    draw_sample,
    gate_records,
    measure_distances,
    read_labels,
)
from fairseq_ext.text.text_files import write_lines
from tests import toy

BANK = ["account", "credit", "loan", "interest", "cash", "payment", "debit"]
GARDEN = ["tree", "flower", "weed", "root", "hedge", "lawn"]


def test_distances_between_and_within_domains(tmp_path: Path) -> None:
    rng = random.Random(1)
    words = {"bank1": BANK, "bank2": BANK, "garden": GARDEN + BANK[:1]}
    corpora = {name: [" ".join(rng.choices(own, k=6)) for _ in range(500)] for name, own in words.items()}
    found = []
    for step in (1, -1):
        write_lines(tmp_path / "domains.txt", corpora)
        for name, lines in corpora.items():
            write_lines(tmp_path / name / "train.en", lines[::step])
        domains, size, matrix = measure_distances(tmp_path, "en", sentences=400, seed=1)
        assert (domains, size) == (list(corpora), 400)
        found.append(matrix)
    assert np.array_equal(*found)
    assert (matrix[:2, 2] > 1.9).all()
    assert matrix[0, 1] < 0.3
    assert (matrix == matrix.T).all()
    assert (np.diag(matrix) == 0).all()


def test_a_sample_has_every_sentence_once() -> None:
    lines = [f"sentence {number % 3000}" for number in range(9000)]
    sample = draw_sample(iter(lines), 1000, seed=1)
    assert len(set(sample)) == len(sample) == 1000
    # The sentences kept on the way are those of the lowest hashes of all.
    assert sample == draw_sample(iter(sorted(set(lines))), 10000, seed=1)[:1000]
    assert sample != draw_sample(iter(lines), 1000, seed=2)


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
def labels(tmp_path: Path) -> Any:
    write_lines(tmp_path / "domains.txt", PROBS)
    for name, rows in PROBS.items():
        write_probs(label_path(tmp_path / "teacher", name, "test"), np.array(rows))
    write_teacher_record(tmp_path / "teacher", list(PROBS), "tfidf", {})
    return read_labels(tmp_path, tmp_path / "teacher")


def test_agreement_and_mean_weights(tmp_path: Path, labels: Any) -> None:
    records = Records(list(gate_records("gad@2", write_gates(tmp_path / "gates.jsonl"), labels)))
    assert {(record.system, record.run) for record in records} == {("gad", "gad@2")}
    layers = ("encoder 1", "decoder 1", "mean")
    agrees, correct = ([records.value("gad", name, layer=layer) for layer in layers] for name in (AGREES, CORRECT))
    assert agrees == [66.67, 100, pytest.approx(83.335)]
    assert correct == [33.33, 66.67, 50]
    assert records.value("gad", CLASSIFIER_CORRECT) == 66.67
    weights = {("law", "law"): 0.40625, ("law", "med"): 0.59375, ("med", "law"): 0.625, ("med", "med"): 0.375}
    assert {(true, gate): records.value("gad", WEIGHT, true, gate=gate) for true, gate in weights} == weights


def test_inputs_alone_are_counted_where_gates_see_several(tmp_path: Path, labels: Any) -> None:
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


SIZE = [f"--{side}-{key}" for side in ("encoder", "decoder") for key in ("embed-dim=4", "ffn-embed-dim=8", "layers=1")]
SIZE += ["--encoder-attention-heads=1", "--decoder-attention-heads=1", "--decoder-output-dim=4"]
# Attention: 4 projections of 4×4 and 4. Feed-forward: 4×8 + 8 and 8×4 + 4. Norm: 2×4.
# The encoder's layer has one attention and two norms, the decoder's two and three.
# Symbols: 20 words, fairseq's four, three tags; the embeddings are tied.
BASE = 27 * 4 + (80 + 76 + 2 * 8) + (2 * 80 + 76 + 3 * 8)
# For each of three domains and two layers: norm, down (4×2 + 2), up (2×4 + 4).
ADAPTERS = 3 * 2 * (8 + 10 + 12)
# For each of two layers three scores of four inputs.
SCORES = 2 * 3 * 4


def test_parameters_are_counted(tmp_path: Path, data: Path) -> None:
    task, args = toy.make_task(data, *SIZE, "--share-all-embeddings", arch="transformer_gated_adapter_tiny")
    path = tmp_path / "checkpoint.pt"
    toy.write_checkpoint(path, args, toy.make_model(task, args))
    # Its tied embeddings are separate, as from a GPU.
    state = torch.load(path, weights_only=False)
    state["model"] = {name: tensor.clone() for name, tensor in state["model"].items()}
    torch.save(state, path)
    assert count_parameters(path, data) == (BASE + ADAPTERS + SCORES, ADAPTERS + SCORES) == (744, 204)
