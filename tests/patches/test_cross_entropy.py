from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.distributed import ModuleProxyWrapper
from fairseq.models import FairseqDecoder, FairseqLanguageModel

import fairseq_ext.registration  # noqa: F401
from fairseq_ext.modules.blockwise_cross_entropy import blockwise_cross_entropy
from fairseq_ext.patches import training
from fairseq_ext.training.cpu_steps import IS_QUICK


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

    monkeypatch.setattr(training, "blockwise_cross_entropy", lose)
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
