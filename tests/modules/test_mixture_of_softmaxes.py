"""The mixture against its formula, written out and by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fairseq_ext.modules.mixture_of_softmaxes import MixtureOfSoftmaxes
from fairseq_ext.modules.topic_steering import TopicSteering

WIDTH, SYMBOLS, TOKENS = 4, 6, 7


def make(num_topics: int = 3, kind: str = "affine", dtype: torch.dtype = torch.float, **options: int) -> tuple:
    """A mixture of topics that have been somewhere, states, targets and output embedding."""
    torch.manual_seed(1)
    mixture = MixtureOfSoftmaxes(TopicSteering(WIDTH, num_topics, kind), **options).to(dtype)  # type: ignore[arg-type]
    for parameter in mixture.parameters():
        nn.init.normal_(parameter, std=0.5)
    hidden, weight = torch.randn(TOKENS, WIDTH, dtype=dtype), torch.randn(SYMBOLS, WIDTH, dtype=dtype)
    return mixture, hidden, torch.randint(SYMBOLS, (TOKENS,)), weight.requires_grad_()


def formula(mixture: MixtureOfSoftmaxes, hidden: Tensor, weight: Tensor) -> Tensor:
    """N×V, Eq. 2 topic by topic; or the softmax of averaged logits."""
    steering = mixture.steering
    weights = steering.weights(hidden)
    logits = torch.stack([steering.steer(hidden, z) @ weight.t() for z in range(steering.num_topics + 1)], 1)
    if mixture.average_states:
        return (weights.unsqueeze(2) * logits).sum(1).softmax(-1)
    return (weights.unsqueeze(2) * logits.softmax(-1)).sum(1)


@pytest.mark.parametrize("average_states", [False, True])
@pytest.mark.parametrize("kind", ["affine", "multiplication", "addition"])
@pytest.mark.parametrize("chunk_size", [1, 9, 1000])
def test_is_its_formula(kind: str, average_states: bool, chunk_size: int) -> None:
    mixture, hidden, targets, weight = make(kind=kind, average_states=average_states, chunk_size=chunk_size)
    probs = formula(mixture, hidden, weight)
    torch.testing.assert_close(probs.sum(1), torch.ones(TOKENS))
    torch.testing.assert_close(mixture.scores(hidden, weight).softmax(1), probs)
    expected = probs[torch.arange(TOKENS), targets].log().sum()
    torch.testing.assert_close(mixture.log_prob_sum(hidden, targets, weight), expected)
    parameters = [*mixture.parameters(), weight]
    torch.testing.assert_close(
        torch.autograd.grad(mixture.log_prob_sum(hidden, targets, weight), parameters),
        torch.autograd.grad(expected, parameters, allow_unused=True, materialize_grads=True),
        atol=1e-5,
        rtol=1e-4,
    )


@pytest.mark.parametrize("average_states", [False, True])
def test_a_topic_alone_is_one_softmax(average_states: bool) -> None:
    mixture, hidden, targets, weight = make(average_states=average_states)
    for topic in (0, 2):
        logits = mixture.steering.steer(hidden, topic) @ weight.t()
        torch.testing.assert_close(mixture.scores(hidden, weight, topic), logits)
        expected = logits.log_softmax(1)[torch.arange(TOKENS), targets].sum()
        torch.testing.assert_close(mixture.log_prob_sum(hidden, targets, weight, topic), expected)
    assert torch.equal(mixture.scores(hidden, weight, 0), nn.functional.linear(hidden, weight))


def test_an_own_output_embedding_is_a_copy() -> None:
    weight = torch.randn(SYMBOLS, WIDTH)
    mixture = MixtureOfSoftmaxes(TopicSteering(WIDTH, 2), output_weight=weight)
    assert torch.equal(mixture.output_weight, weight)
    with torch.no_grad():
        mixture.output_weight.zero_()
    assert weight.any()
    assert "output_weight" not in MixtureOfSoftmaxes(TopicSteering(WIDTH, 2)).state_dict()
