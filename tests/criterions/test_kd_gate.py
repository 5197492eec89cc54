"""The gate loss against numbers worked out by hand."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.logging import metrics

from fairseq_ext.criterions.label_smoothed_cross_entropy_with_kd_gate import (
    LabelSmoothedCrossEntropyWithKDGateCriterion as KDGate,
)
from tests import toy

PAD = 1


TASK = SimpleNamespace(target_dictionary=SimpleNamespace(pad=lambda: PAD))


def criterion(tau: float = 1.0, target: str = "probs", term: str = "sentence", alpha: float = 0.5) -> KDGate:
    return KDGate(TASK, False, 0.1, alpha, tau, target, term)


# Two sentences of three domains, the first with two target tokens, the second with one and a pad.
SAMPLE = {
    "target": torch.tensor([[5, 2], [2, PAD]]),
    "teacher_probs": torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.0, 1.0]]),
    "domain_ids": torch.tensor([1, 2]),
    "ntokens": 3,
}


def test_targets_with_the_papers_temperature() -> None:
    soft = criterion(0.1).target(SAMPLE, 3)[0]
    sharp = criterion(0.1, "log-probs").target(SAMPLE, 3)[0]
    # e^6 : e^4 : e^0, and 0.6^10 : 0.4^10 : 0
    total = math.exp(6) + math.exp(4) + 1
    torch.testing.assert_close(soft, torch.tensor([math.exp(6) / total, math.exp(4) / total, 1 / total]))
    ratio = (0.6 / 0.4) ** 10
    torch.testing.assert_close(sharp, torch.tensor([ratio / (1 + ratio), 1 / (1 + ratio), 0.0]))
    assert criterion(target="domain").target(SAMPLE, 3).tolist() == [[0, 1, 0], [0, 0, 1]]


def test_gates_without_a_base_learn_the_shares_of_the_domains() -> None:
    probs = torch.tensor([[0.3, 0.2, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0]])
    target = criterion(1.0, "log-probs").target({**SAMPLE, "teacher_probs": probs}, 3)
    torch.testing.assert_close(target, torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.0, 0.0]]))
    soft = criterion(0.5).target({**SAMPLE, "teacher_probs": probs}, 3)[0]
    torch.testing.assert_close(soft, torch.tensor([1.2, 0.8, 0.0]).softmax(-1))


def test_divergence_of_even_gates_by_hand() -> None:
    """Even gates against p: KL = log 3 − H(p), times τ², with τ = 2 sharpening nothing in log-probs of p^(1/2)."""
    gates = {"encoder": torch.zeros(1, 2, 3), "decoder": torch.zeros(1, 2, 2, 3)}
    loss, log = criterion(1.0, "log-probs").gate_loss(gates, SAMPLE)
    first = math.log(3) + 0.6 * math.log(0.6) + 0.4 * math.log(0.4)
    second = math.log(3)
    assert log["gate_loss_encoder_0"].item() == pytest.approx(first + second, rel=1e-6)
    assert log["gate_loss_decoder_0"].item() == pytest.approx(2 * first + second, rel=1e-6)
    assert loss.item() == pytest.approx(3 * first + 2 * second, rel=1e-6)
    # An encoder term per token weighs each sentence by its length, and is logged per sentence.
    loss, log = criterion(1.0, "log-probs", "token").gate_loss(gates, SAMPLE)
    assert loss.item() == pytest.approx(2 * (2 * first + second), rel=1e-6)
    assert log["gate_loss_encoder_0"].item() == pytest.approx(first + second, rel=1e-6)


def test_temperature_scales_gates_teacher_and_loss() -> None:
    logits = torch.tensor([[[1.0, -0.5, 0.2], [0.0, 0.3, 0.1]]])
    loss, _ = criterion(0.5).gate_loss({"encoder": logits}, SAMPLE)
    goal, gate = (SAMPLE["teacher_probs"] / 0.5).softmax(-1), (logits[0] / 0.5).softmax(-1)
    assert loss.item() == pytest.approx(0.25 * (goal * (goal / gate).log()).sum().item(), rel=1e-5)


@pytest.mark.parametrize(("target", "term"), [("probs", "sentence"), ("log-probs", "token")])
def test_sentences_without_a_label_teach_the_gates_nothing(target: str, term: str) -> None:
    shapes = {"encoder": (3, 2, 3), "decoder": (2, 2, 2, 3)}
    gates = {side: torch.randn(shape, requires_grad=True) for side, shape in shapes.items()}
    probs = SAMPLE["teacher_probs"].clone()
    probs[0] = 0
    loss, log = criterion(0.7, target, term).gate_loss(gates, SAMPLE | {"teacher_probs": probs})
    loss.backward()
    second = {key: value[1:] for key, value in SAMPLE.items() if key != "ntokens"}
    alone = {side: logits[:, 1:] for side, logits in gates.items()}
    loss_alone, log_alone = criterion(0.7, target, term).gate_loss(alone, second)
    torch.testing.assert_close(loss, loss_alone)
    assert {k: v.item() for k, v in log.items()} == pytest.approx({k: v.item() for k, v in log_alone.items()})
    assert log["gate_sample_size"] == log["gate_labelled"] == log["gate_terms_decoder"] == 1
    for side in gates.values():
        assert side.grad is not None
        assert not side.grad[:, 0].any()
        assert side.grad[:, 1].any()


@pytest.fixture
def system(data: Path, teacher: Path) -> tuple[Any, Any]:
    """A task, and a model whose gates have been somewhere."""
    task, args = toy.make_task(data, "--teacher-dir", str(teacher))
    model = toy.make_model(task, args)
    toy.randomise_adapters(model)
    return task, model


def test_total_is_translation_plus_weighted_gates(system: tuple[Any, Any]) -> None:
    own_task, model = system
    batch = toy.first_batch(own_task)
    losses = [criterion(alpha=a)(model, batch)[0].item() for a in (0.0, 3.0)]
    log = criterion()(model, batch)[2]
    assert losses[1] - losses[0] == pytest.approx(3 * log["gate_loss"].item(), rel=1e-4)


def test_logs_of_workers_sum_to_the_log_of_all(system: tuple[Any, Any]) -> None:
    own_task, model = system
    own_task.load_dataset("test")
    dataset = own_task.datasets["test"]
    parts = [dataset.collater([dataset[i] for i in rows]) for rows in (range(5), range(5, 12))]
    whole = dataset.collater([dataset[i] for i in range(12)])
    loss = criterion()
    logs = [loss(model, part)[2] for part in parts]
    summed = {key: sum(log[key] for log in logs) for key in logs[0]}
    one = loss(model, whole)[2]
    assert {k: float(v) for k, v in summed.items()} == pytest.approx({k: float(v) for k, v in one.items()}, rel=1e-4)
    with metrics.aggregate(new_root=True) as reduced:
        KDGate.reduce_metrics(logs)
    shown = reduced.get_smoothed_values()
    assert shown["gate_labelled"] == 100
    assert shown["gate_loss_encoder_0"] == pytest.approx(float(one["gate_loss_encoder_0"]) / 12 / math.log(2), abs=1e-4)
