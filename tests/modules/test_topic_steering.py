"""Topics' weights and transformations against numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fairseq_ext.modules.topic_steering import TopicSteering

HIDDEN = torch.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 1.0]])  # N×H
KINDS = ["affine", "multiplication", "addition"]


def steering(kind: str = "affine", **values: list) -> TopicSteering:
    """One topic beside topic 0, with these parameters."""
    module = TopicSteering(3, 1, kind)
    with torch.no_grad():
        for name, value in values.items():
            getattr(module.transformation, name).copy_(torch.tensor(value))
    return module


def check(module: TopicSteering, expected: list[list[float]]) -> None:
    steered = module(HIDDEN)
    assert steered.shape == (2, 2, 3)
    assert torch.equal(steered[:, 0], HIDDEN)
    torch.testing.assert_close(steered[:, 1], torch.tensor(expected))
    for topic in (0, 1):
        torch.testing.assert_close(module.steer(HIDDEN, topic), steered[:, topic])


def test_affine() -> None:
    """h·(I + A) + b, with A's columns (0 0 1), (2 0 0), (0 0 0)."""
    module = steering("affine", matrix=[[[0.0, 0, 1], [2, 0, 0], [0, 0, 0]]], offset=[[10.0, 20, 30]])
    check(module, [[1 + 3 + 10.0, 2 + 2 + 20, 3 + 30], [0 + 1 + 10, -1 + 0 + 20, 1 + 30]])


def test_multiplication() -> None:
    check(steering("multiplication", gain=[[1.0, -1, 0.5]]), [[2, 0, 4.5], [0, 0, 1.5]])


def test_addition() -> None:
    module = steering("addition", goal=[[5.0, 6, 7]], omega=[[0.25]])
    check(module, [[2, 3, 4], [1.25, 0.75, 2.5]])


@pytest.mark.parametrize("kind", KINDS)
def test_starts_as_the_base_exactly(kind: str) -> None:
    module = TopicSteering(3, 4, kind)
    assert torch.equal(module(HIDDEN), HIDDEN.unsqueeze(1).expand(2, 5, 3))


def test_weights() -> None:
    """Normalised states (−1 0 1)·√1.5 and (0 −1 1)·√1.5, and the scores' softmax."""
    module = TopicSteering(3, 2)
    with torch.no_grad():
        module.embeddings.copy_(torch.tensor([[1.0, 0, 0], [0, 0, 0], [0, 0, 2]]))
    root = 1.5**0.5
    expected = torch.tensor([[-root, 0, 2 * root], [0, 0, 2 * root]]).softmax(1)
    torch.testing.assert_close(module.weights(HIDDEN), expected, atol=1e-5, rtol=1e-5)  # the norm's own epsilon
    torch.testing.assert_close(module.log_weights(HIDDEN), expected.log(), atol=1e-5, rtol=1e-5)
    assert module.log_weights(HIDDEN.bfloat16().float()).dtype == torch.float32
    assert module.bfloat16().log_weights(HIDDEN.bfloat16()).dtype == torch.float32


def gradients(module: TopicSteering, kind: str) -> Tensor:
    """Z×…, of a loss that asks the same of every topic."""
    hidden = torch.randn(8, 16)
    cost = (module(hidden) * torch.randn(8, 1, 16)).sum(-1)  # N×(Z+1)
    (module.weights(hidden).detach() * cost).sum().backward()
    parameter = {"affine": "matrix", "multiplication": "gain", "addition": "omega"}[kind]
    gradient: Tensor = getattr(module.transformation, parameter).grad
    return gradient.flatten(1)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_topics_learn_different_things(kind: str) -> None:
    torch.manual_seed(1)
    gradient = gradients(TopicSteering(16, 4, kind), kind)
    assert gradient.ne(0).all()
    distances = torch.cdist(gradient, gradient) / gradient.norm(dim=1).mean()
    assert distances[~torch.eye(4, dtype=torch.bool)].min() > 0.1
