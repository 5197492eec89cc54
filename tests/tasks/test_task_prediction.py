"""fairseq's sentence prediction with the options of our tasks."""

import torch
from fairseq.criterions.sentence_prediction import SentencePredictionConfig, SentencePredictionCriterion
from fairseq.tasks import TASK_REGISTRY
from torch import Tensor

from fairseq_ext.tasks.task_prediction import TaskPredictionConfig, TaskPredictionTask
from tests import toy_tasks


class _Optimizer:
    def backward(self, loss: Tensor) -> None:
        loss.backward()


def gradients(precision: str) -> list[Tensor]:
    """Those of the task's parameters after a batch."""
    cfg = TaskPredictionConfig(data="", num_classes=3, classification_head_name="sst2")
    cfg.cpu_precision = precision  # type: ignore[assignment]
    task = TaskPredictionTask(cfg, toy_tasks.make_dictionary(), toy_tasks.make_dictionary(toy_tasks.LABELS))
    model = toy_tasks.randomise(toy_tasks.make_model()).train()
    tokens = toy_tasks.tokens_of()
    sample = {"net_input": {"src_tokens": tokens}, "target": torch.zeros(len(tokens), dtype=torch.long), "ntokens": 9,
              "nsentences": len(tokens)}  # fmt: skip
    criterion = SentencePredictionCriterion(SentencePredictionConfig(classification_head_name="sst2"), task)
    torch.manual_seed(1)
    task.train_step(sample, model, criterion, _Optimizer(), 1)
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def test_it_is_registered_and_heeds_the_precision() -> None:
    assert TASK_REGISTRY["task_prediction"] is TaskPredictionTask
    exact, rounded = gradients("float32"), gradients("bfloat16")
    assert {gradient.dtype for gradient in rounded} == {torch.float32}
    assert any(not torch.equal(one, other) for one, other in zip(exact, rounded, strict=True))
    largest = max(gradient.abs().max() for gradient in exact)
    assert max((one - other).abs().max() for one, other in zip(exact, rounded, strict=True)) < 0.05 * largest
