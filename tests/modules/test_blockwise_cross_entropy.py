from __future__ import annotations

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch import Tensor

from fairseq_ext.modules import blockwise_cross_entropy as module

PADDING = 1
ROWS, SYMBOLS = 37, 53


def losses(kind: str, logits: Tensor, target: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    logits = logits.clone().requires_grad_()
    if kind == "blocks":
        loss, nll_loss = module.blockwise_cross_entropy(logits, target, epsilon, PADDING)
    else:
        log_probs = logits.log_softmax(-1, dtype=torch.float32)
        loss, nll_loss = label_smoothed_nll_loss(log_probs, target, epsilon, ignore_index=PADDING)
    (3 * loss).backward()
    assert logits.grad is not None
    return loss.detach(), nll_loss.detach(), logits.grad


@pytest.fixture
def text() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    target = torch.randint(2, SYMBOLS, (ROWS,))
    target[::5] = PADDING
    return 40 * torch.randn(ROWS, SYMBOLS), target


@pytest.mark.parametrize("block", [1, 4 * SYMBOLS + 3, 2**17], ids=["a row", "some rows", "all rows"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_loss_and_gradient_are_fairseqs(
    text: tuple[Tensor, Tensor], epsilon: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    for quick, own in zip(losses("blocks", *text, epsilon), losses("fairseq", *text, epsilon), strict=True):
        torch.testing.assert_close(quick, own, rtol=1e-5, atol=1e-5)


def test_logits_of_half_precision_have_such_a_gradient(text: tuple[Tensor, Tensor]) -> None:
    logits, target = text[0].bfloat16(), text[1]
    (loss, _, grad), (own_loss, _, own_grad) = (losses(kind, logits, target, 0.1) for kind in ("blocks", "fairseq"))
    torch.testing.assert_close(loss, own_loss)
    assert grad.dtype == torch.bfloat16
    torch.testing.assert_close(grad, own_grad, rtol=0.01, atol=1e-4)


def test_an_impossible_symbol_is_no_matter_without_smoothing(text: tuple[Tensor, Tensor]) -> None:
    logits, target = text
    logits[:, 0] = -torch.inf
    loss, nll_loss, grad = losses("blocks", logits, target, 0.0)
    assert loss.isfinite()
    assert loss == nll_loss
    assert grad[:, 0].eq(0).all()


def test_nothing_is_kept_where_no_gradient_is_asked_for(text: tuple[Tensor, Tensor]) -> None:
    loss, nll_loss = module.blockwise_cross_entropy(*text, 0.1, PADDING)
    assert not loss.requires_grad
    assert not nll_loss.requires_grad
    assert loss.item() == pytest.approx(losses("fairseq", *text, 0.1)[0].item())
