"""fairseq's sentence prediction with the options of our tasks."""

from pathlib import Path

import pytest
import torch
from fairseq.criterions.sentence_prediction import SentencePredictionConfig, SentencePredictionCriterion
from fairseq.tasks import TASK_REGISTRY
from torch import Tensor

from fairseq_ext.tasks.task_prediction import TaskPredictionConfig, TaskPredictionTask
from tests import toy_tasks
from tests.toy_task_data import COUNTS, write_task


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
    task.train_step(sample, model, criterion, toy_tasks.Optimizer(), 1)
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def test_it_is_registered_and_heeds_the_precision() -> None:
    assert TASK_REGISTRY["task_prediction"] is TaskPredictionTask
    exact, rounded = gradients("float32"), gradients("bfloat16")
    assert {gradient.dtype for gradient in rounded} == {torch.float32}
    assert any(not torch.equal(one, other) for one, other in zip(exact, rounded, strict=True))
    largest = max(gradient.abs().max() for gradient in exact)
    assert max((one - other).abs().max() for one, other in zip(exact, rounded, strict=True)) < 0.05 * largest


@pytest.mark.parametrize("no_shuffle", [False, True])
def test_sentences_of_similar_length_share_a_batch_where_asked(no_shuffle: bool, tmp_path: Path) -> None:
    data = write_task(tmp_path / "films")
    orders = {}
    for grouped in (False, True):
        cfg = TaskPredictionConfig(
            data=str(data), num_classes=3, seed=1, no_shuffle=no_shuffle, group_by_length=grouped
        )
        task = TaskPredictionTask.setup_task(cfg)
        task.load_dataset("train")
        orders[grouped] = task.dataset("train").ordered_indices().tolist()
    lengths = task.dataset("train").num_tokens
    assert sorted(orders[True]) == list(range(COUNTS["train"])) == sorted(orders[False])
    assert orders[True] == sorted(orders[False], key=lengths)  # equal lengths stay in fairseq's order
    assert orders[True] != orders[False]
