"""fairseq's masked language modelling with the options of our tasks."""

import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.tasks import TASK_REGISTRY
from torch import Tensor

from fairseq_ext.tasks.masked_language_modeling import MaskedLanguageModelingConfig, MaskedLanguageModelingTask
from tests import toy_tasks


def gradients(precision: str) -> list[Tensor]:
    """Those of a base after a batch whose second tokens are masked."""
    cfg = MaskedLanguageModelingConfig(data="")
    cfg.cpu_precision = precision  # type: ignore[assignment]
    task = MaskedLanguageModelingTask(cfg, toy_tasks.make_dictionary())
    model = toy_tasks.make_base().train()
    tokens = toy_tasks.tokens_of()
    target = torch.full_like(tokens, toy_tasks.PAD)
    target[:, 1] = tokens[:, 1]
    sample = {"net_input": {"src_tokens": tokens}, "target": target, "ntokens": 9, "nsentences": len(tokens)}
    torch.manual_seed(1)
    task.train_step(sample, model, MaskedLmLoss(MaskedLmConfig(), task), toy_tasks.Optimizer(), 1)
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize(("precision", "is_exact"), [("float32", True), ("bfloat16", False)])
def test_it_is_registered_and_heeds_the_precision(precision: str, is_exact: bool) -> None:
    assert TASK_REGISTRY["masked_language_modeling"] is MaskedLanguageModelingTask
    exact, found = gradients("float32"), gradients(precision)
    assert {gradient.dtype for gradient in found} == {torch.float32}
    assert all(torch.equal(one, other) for one, other in zip(exact, found, strict=True)) == is_exact
    largest = max(gradient.abs().max() for gradient in exact)
    assert max((one - other).abs().max() for one, other in zip(exact, found, strict=True)) < 0.05 * largest
