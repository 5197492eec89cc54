"""fairseq's sentence prediction with the options of our tasks."""

from pathlib import Path

import pytest

from fairseq_ext.tasks.task_prediction import TaskPredictionConfig, TaskPredictionTask
from tests.toy_task_data import COUNTS, write_task


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
