"""Topics' weights and transformations against numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from fairseq_ext.modules.topic_steering import TopicSteering

HIDDEN = torch.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 1.0]])  # N×H
# By kind, the parameters of one topic, and where it takes both states; A has the columns (0 0 1), (2 0 0), (0 0 0).
BY_HAND: dict[str, tuple[dict[str, list], list[list[float]]]] = {
    "affine": (
        {"matrix": [[[0.0, 0, 1], [2, 0, 0], [0, 0, 0]]], "offset": [[10.0, 20, 30]]},
        [[1 + 3 + 10.0, 2 + 2 + 20, 3 + 30], [0 + 1 + 10, -1 + 0 + 20, 1 + 30]],
    ),
    "multiplication": ({"gain": [[1.0, -1, 0.5]]}, [[2, 0, 4.5], [0, 0, 1.5]]),
    "addition": ({"goal": [[5.0, 6, 7]], "omega": [[0.25]]}, [[2, 3, 4], [1.25, 0.75, 2.5]]),
}
LEARNS_FIRST = {"affine": "matrix", "multiplication": "gain", "addition": "omega"}


@pytest.mark.parametrize("kind", BY_HAND)
def test_a_topic_starts_as_the_base_and_goes_where_its_parameters_say(kind: str) -> None:
    module, (values, expected) = TopicSteering(3, 1, kind), BY_HAND[kind]
    assert torch.equal(module(HIDDEN), HIDDEN.unsqueeze(1).expand(2, 2, 3))
    with torch.no_grad():
        for name, value in values.items():
            getattr(module.transformation, name).copy_(torch.tensor(value))
    steered = module(HIDDEN)
    assert torch.equal(steered[:, 0], HIDDEN)
    torch.testing.assert_close(steered[:, 1], torch.tensor(expected))
    for topic in (0, 1):
        torch.testing.assert_close(module.steer(HIDDEN, topic), steered[:, topic])


def test_weights() -> None:
    """Normalised states (−1 0 1)·√1.5 and (0 −1 1)·√1.5, and the scores' softmax."""
    module = TopicSteering(3, 2)
    with torch.no_grad():
        module.embeddings.copy_(torch.tensor([[1.0, 0, 0], [0, 0, 0], [0, 0, 2]]))
    root = 1.5**0.5
    expected = torch.tensor([[-root, 0, 2 * root], [0, 0, 2 * root]]).softmax(1)
    torch.testing.assert_close(module.weights(HIDDEN), expected, atol=1e-5, rtol=1e-5)  # the norm's own epsilon
    torch.testing.assert_close(module.log_weights(HIDDEN), expected.log(), atol=1e-5, rtol=1e-5)
    assert module.bfloat16().log_weights(HIDDEN.bfloat16()).dtype == torch.float32


@pytest.mark.parametrize("kind", BY_HAND)
def test_equal_topics_learn_different_things(kind: str) -> None:
    """From a loss that asks the same of every topic."""
    torch.manual_seed(1)
    module, hidden = TopicSteering(16, 4, kind), torch.randn(8, 16)
    cost = (module(hidden) * torch.randn(8, 1, 16)).sum(-1)  # N×(Z+1)
    (module.weights(hidden).detach() * cost).sum().backward()
    gradient = getattr(module.transformation, LEARNS_FIRST[kind]).grad.flatten(1)
    assert gradient.ne(0).all()
    distances = torch.cdist(gradient, gradient) / gradient.norm(dim=1).mean()
    assert distances[~torch.eye(4, dtype=torch.bool)].min() > 0.1
