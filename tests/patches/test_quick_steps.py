from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.distributed import ModuleProxyWrapper
from fairseq.models import FairseqDecoder, FairseqLanguageModel
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.optim.adam import Adam

import fairseq_ext.registration  # noqa: F401
from fairseq_ext.modules.blockwise_cross_entropy import blockwise_cross_entropy
from fairseq_ext.patches import quick_steps
from fairseq_ext.training.cpu_steps import IS_QUICK

X = torch.arange(1.0, 401).view(20, 20)


def dropped(is_quick: bool, is_training: bool = True, p: float = 0.25) -> torch.Tensor:
    torch.manual_seed(1)
    with IS_QUICK.during(is_quick):
        out: torch.Tensor = FairseqDropout(p).train(is_training)(X)
    return out


def test_dropout_is_torchs_own_unless_steps_are_quick() -> None:
    torch.manual_seed(1)
    own = F.dropout(X, 0.25)
    assert torch.equal(dropped(False), own)
    quick = dropped(True)
    assert not torch.equal(quick, own)
    assert torch.equal(quick[quick.ne(0)], (X * (256 / 192))[quick.ne(0)])
    assert torch.equal(dropped(True, is_training=False), X)
    assert torch.equal(dropped(True, p=1.0), torch.zeros_like(X))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adam_steps_as_fairseqs_does(weight_decay: float) -> None:
    """With a large epsilon, which torch's own Adam adds elsewhere, and parameters that leave out steps."""
    torch.manual_seed(1)
    start = [torch.randn(5, 4), torch.randn(3), torch.randn(2, 2)]
    plain, quick = ([torch.nn.Parameter(value.clone()) for value in start] for _ in range(2))
    adams = [Adam(p, lr=0.01, betas=(0.9, 0.98), eps=1e-2, weight_decay=weight_decay) for p in (plain, quick)]
    for turn in range(6):
        for number, pair in enumerate(zip(plain, quick, strict=True)):
            grad = torch.randn_like(pair[0])
            for parameter in pair:
                parameter.grad = None if turn % 2 == 1 and number == 1 else grad.clone()
        adams[0].step()
        with IS_QUICK.during(True):
            adams[1].step()
    for one, other, before in zip(plain, quick, start, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)
        assert not torch.equal(one, before)
    # A training may go on in the other way.
    states = [{k: type(v) for k, v in adam.state[p[1]].items()} for adam, p in zip(adams, (plain, quick), strict=True)]
    assert states[0] == states[1]
    assert adams[1].state[quick[1]]["step"] == 3


def test_adam_is_fairseqs_own_for_weights_of_half_precision() -> None:
    weight = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    weight.grad = torch.ones_like(weight)
    with IS_QUICK.during(True):
        Adam([weight], lr=0.5).step()
    assert torch.equal(weight.detach(), torch.full_like(weight, 0.5))


class Softmax(FairseqDecoder):
    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__(Dictionary())
        self.logits = logits

    def forward(self, prev_output_tokens: torch.Tensor) -> tuple[torch.Tensor, None]:
        return self.logits, None


class OfItsOwn(Softmax):
    def get_normalized_probs(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return super().get_normalized_probs(*args, **kwargs)


class Wrapped(torch.nn.Module):
    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, prev_output_tokens: torch.Tensor | None) -> Any:
        return self.module(prev_output_tokens)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The smoothing of every loss that was computed in blocks."""
    asked = []

    def lose(logits: torch.Tensor, target: torch.Tensor, epsilon: float, padding: int) -> Any:
        asked.append(epsilon)
        return blockwise_cross_entropy(logits, target, epsilon, padding)

    monkeypatch.setattr(quick_steps, "blockwise_cross_entropy", lose)
    return asked


def lose(criterion: Any, decoder: type[Softmax] = Softmax, is_quick: bool = True, **options: Any) -> Any:
    torch.manual_seed(1)
    target = torch.randint(0, 9, (2, 3))  # 1 is padding
    model = ModuleProxyWrapper(Wrapped(FairseqLanguageModel(decoder(torch.randn(2, 3, 9)))))  # as several processes do
    with IS_QUICK.during(is_quick):
        return criterion.compute_loss(model, model(None), {"target": target}, **options)


def criterions(**options: Any) -> list[Any]:
    task = SimpleNamespace(target_dictionary=Dictionary())
    return [CrossEntropyCriterion(task, False), LabelSmoothedCrossEntropyCriterion(task, False, 0.1, **options)]


@pytest.mark.parametrize("number", [0, 1], ids=["cross_entropy", "label_smoothed_cross_entropy"])
def test_losses_of_a_softmax_are_computed_in_blocks(number: int, blocks: list[float]) -> None:
    criterion = criterions()[number]
    quick, own = lose(criterion), lose(criterion, is_quick=False)
    assert blocks == [[0.0], [0.1]][number]
    assert [float(value) for value in quick] == pytest.approx([float(value) for value in own])


@pytest.mark.parametrize(
    ("settings", "options"),
    [({}, {"decoder": OfItsOwn}), ({}, {"reduce": False}), ({"ignore_prefix_size": 1}, {})],
    ids=["probabilities of a class of its own", "a loss for every token", "a prefix without loss"],
)
def test_other_losses_are_fairseqs_own(settings: dict, options: dict, blocks: list[float]) -> None:
    criterion = criterions(**settings)[1]
    for quick, own in zip(lose(criterion, **options), lose(criterion, is_quick=False, **options), strict=True):
        assert torch.equal(quick, own)
    assert not blocks
