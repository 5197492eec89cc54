"""Topics against numbers worked out by hand, their mixture against its formula, and sums chunk by chunk."""

import pytest
import torch
from torch import Tensor, nn

from fairseq_ext.modules.topics import MixtureOfSoftmaxes, TopicSteering, chunked_sum

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


def test_weights_are_the_softmax_of_scores_of_normalised_states() -> None:
    module = TopicSteering(3, 2)
    expected = (nn.functional.layer_norm(HIDDEN, (3,)) @ module.embeddings.t()).log_softmax(1)
    torch.testing.assert_close(module.log_weights(HIDDEN), expected)
    assert module.bfloat16().log_weights(HIDDEN.bfloat16()).dtype == torch.float32


def test_equal_topics_learn_different_things() -> None:
    """From a loss that asks the same of every topic."""
    torch.manual_seed(1)
    module, hidden = TopicSteering(16, 4), torch.randn(8, 16)
    cost = (module(hidden) * torch.randn(8, 1, 16)).sum(-1)  # N×(Z+1)
    (module.weights(hidden).detach() * cost).sum().backward()
    gradient = module.transformation.matrix.grad.flatten(1)
    assert gradient.ne(0).all()
    distances = torch.cdist(gradient, gradient) / gradient.norm(dim=1).mean()
    assert distances[~torch.eye(4, dtype=torch.bool)].min() > 0.1


# Mixtures

WIDTH, SYMBOLS, TOKENS = 4, 6, 7


def make(kind: str = "affine", **options: int) -> tuple:
    """A mixture of topics that have been somewhere, states, targets and output embedding."""
    torch.manual_seed(1)
    mixture = MixtureOfSoftmaxes(TopicSteering(WIDTH, 3, kind), **options)  # type: ignore[arg-type]
    for parameter in mixture.parameters():
        nn.init.normal_(parameter, std=0.5)
    weight = torch.randn(SYMBOLS, WIDTH, requires_grad=True)
    return mixture, torch.randn(TOKENS, WIDTH), torch.randint(SYMBOLS, (TOKENS,)), weight


def formula(mixture: MixtureOfSoftmaxes, hidden: Tensor, weight: Tensor) -> Tensor:
    """N×V, Eq. 2 topic by topic; or the softmax of averaged logits."""
    steering = mixture.steering
    weights = steering.weights(hidden)
    logits = torch.stack([steering.steer(hidden, z) @ weight.t() for z in range(steering.num_topics + 1)], 1)
    if mixture.average_states:
        return (weights.unsqueeze(2) * logits).sum(1).softmax(-1)
    return (weights.unsqueeze(2) * logits.softmax(-1)).sum(1)


@pytest.mark.parametrize("average_states", [False, True])
@pytest.mark.parametrize(("kind", "chunk_size"), [("affine", 1), ("multiplication", 9), ("addition", 1000)])
def test_a_mixture_of_softmaxes_equals_its_formula(kind: str, average_states: bool, chunk_size: int) -> None:
    mixture, hidden, targets, weight = make(kind, average_states=average_states, chunk_size=chunk_size)
    probs = formula(mixture, hidden, weight)
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


def test_a_topic_alone_is_one_softmax() -> None:
    mixture, hidden, targets, weight = make()
    for topic in (0, 2):
        logits = mixture.steering.steer(hidden, topic) @ weight.t()
        torch.testing.assert_close(mixture.scores(hidden, weight, topic), logits)
        expected = logits.log_softmax(1)[torch.arange(TOKENS), targets].sum()
        torch.testing.assert_close(mixture.log_prob_sum(hidden, targets, weight, topic), expected)


# Sums by chunks


def cost(weight: Tensor, hidden: Tensor, targets: Tensor) -> Tensor:
    return -(hidden @ weight.t()).log_softmax(-1).gather(1, targets.unsqueeze(1)).squeeze(1)


def test_gradients_are_those_of_the_sum_and_a_chunk_is_gone_before_the_next_one() -> None:
    torch.manual_seed(1)
    weight, hidden = (torch.randn(rows, 3, dtype=torch.double, requires_grad=True) for rows in (5, 7))
    targets, seen = torch.randint(5, (7,)), []

    def watched(hidden: Tensor, targets: Tensor) -> Tensor:
        seen.append(("forward", len(targets)))
        costs = cost(weight, hidden, targets)
        costs.register_hook(lambda grad: seen.append(("backward", len(grad))))
        return costs

    value, expected = chunked_sum(watched, hidden, targets, [weight], 3), cost(weight, hidden, targets).sum()
    torch.testing.assert_close(value, expected)
    wanted = torch.autograd.grad(3 * expected, [weight, hidden])
    torch.testing.assert_close(torch.autograd.grad(3 * value, [weight, hidden]), wanted)
    assert seen == [(way, size) for size in (3, 3, 1) for way in ("forward", "backward")]


def test_half_precision_is_summed_in_float32() -> None:
    """256 + 1 is 256 in bfloat16."""
    weight = torch.ones(1, dtype=torch.bfloat16, requires_grad=True)
    hidden, targets = torch.ones(300, 1, dtype=torch.bfloat16), torch.zeros(300)
    value = chunked_sum(lambda hidden, _: (hidden * weight).squeeze(1), hidden, targets, [weight], 1)
    assert value.item() == 300
    value.backward()
    assert weight.grad is not None
    assert weight.grad.item() == torch.tensor(300.0).bfloat16().item()
