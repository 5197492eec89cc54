"""fairseq's sentence prediction with the options of our tasks."""

from pathlib import Path

from fairseq_ext.tasks.task_prediction import TaskPredictionConfig, TaskPredictionTask
from tests.toy_task_data import COUNTS, write_task


def test_sentences_of_similar_length_share_a_batch_where_asked(tmp_path: Path) -> None:
    data = write_task(tmp_path / "films")
    orders = {}
    for grouped in (False, True):
        cfg = TaskPredictionConfig(data=str(data), num_classes=3, seed=1, group_by_length=grouped)
        task = TaskPredictionTask.setup_task(cfg)
        task.load_dataset("train")
        orders[grouped] = task.dataset("train").ordered_indices().tolist()
    lengths = task.dataset("train").num_tokens
    assert sorted(orders[True]) == list(range(COUNTS["train"])) == sorted(orders[False])
    assert orders[True] == sorted(orders[False], key=lengths)  # equal lengths stay in fairseq's order
    assert orders[True] != orders[False]
