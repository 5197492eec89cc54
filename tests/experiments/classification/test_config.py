"""The experiment file of classifiers: its sections are checked, and mistakes are named."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.classifiers.task_split import ClassificationSplit
from fairseq_ext.corpora.labelled_text import Columns
from fairseq_ext.experiments.classification.config import Subwords, load_config
from fairseq_ext.inputs.errors import InputError

TASKS = {"trec": {"train": "a.tsv", "test": "b.csv"}, "stsb": {"train": "c.jsonl", "kind": "regression"}}


def write_config(path: Path, /, **changes: Any) -> Path:
    settings = {"work_dir": "work", "corpora": {"folder": "text"}, "tasks": TASKS}
    path.write_text(yaml.safe_dump({**settings, **changes}, sort_keys=False), encoding="utf-8")
    return path


def test_text_tasks_and_work_dir_are_enough(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path / "c.yaml"))
    assert config.split == ClassificationSplit()
    assert config.subwords == Subwords()
    assert list(config.tasks) == ["trec", "stsb"]  # the order of a sequence
    trec, stsb = config.tasks.values()
    assert trec.tables == {"train": Path("a.tsv"), "test": Path("b.csv")}
    assert trec.columns == Columns("label", ("text",))
    assert (trec.metrics, stsb.metrics) == (["accuracy"], ["spearman"])
    assert stsb.columns.is_number


def test_a_task_names_its_columns_and_metrics(tmp_path: Path) -> None:
    task = {"train": "a.tsv", "label": "y", "text": "one", "text2": "two", "metrics": "f1"}
    config = load_config(write_config(tmp_path / "c.yaml", tasks={"mrpc": task}))
    assert config.tasks["mrpc"].columns == Columns("y", ("one", "two"))
    assert config.tasks["mrpc"].metrics == ["f1"]


def test_an_imported_base_needs_no_text(tmp_path: Path) -> None:
    path = write_config(tmp_path / "c.yaml", subwords={"imported": "models/roberta"})
    path.write_text(path.read_text().replace("corpora:\n  folder: text\n", ""))
    assert load_config(path).corpora is None
    path.write_text(path.read_text().replace("imported: models/roberta", "vocab_size: 8"))
    with pytest.raises(InputError, match=r"c\.yaml: corpora: is missing; give text for the base model, or subwords: "):
        load_config(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": {}}, r"c\.yaml: unknown key 'task'; allowed are corpora,"),
        ({"tasks": {}}, r"tasks: is empty; give at least one task"),
        ({"tasks": {"a b": {"train": "x.tsv"}}}, r"tasks: 'a b' is no name of a task; use letters"),
        ({"tasks": {"a": {"valid": "x.tsv"}}}, r"tasks: a: the key 'train' is missing"),
        ({"tasks": {"a": {"train": "x.tsv", "dev": "x"}}}, r"tasks: a: unknown key 'dev'; allowed are kind, label,"),
        ({"tasks": {"a": {"train": "x.txt"}}}, r"tasks: a: train: x\.txt is no table; give \.tsv, \.csv, \.jsonl"),
        ({"tasks": {"a": {"train": "x.tsv", "kind": "rank"}}}, r"a: kind: 'rank' is unknown; choose one of classific"),
        ({"tasks": {"a": {"train": "x.tsv", "metrics": ["f2"]}}}, r"a: metrics: 'f2' is unknown; choose one of accur"),
        ({"tasks": {"a": {"train": "x.tsv", "metrics": ["spearman"]}}}, r"metrics: 'spearman' is unknown"),
        ({"corpora": {"folder": "a", "on_bad_utf8": "pray"}}, r"on_bad_utf8: 'pray' is unknown; choose one of fail"),
        ({"split": {"task_valid": 0}}, r"split: task_valid: 0\.0 is too small"),
        ({"split": {"task_valid": 0.5, "task_test": 0.5}}, r"split: task_valid and task_test leave nothing to train"),
        ({"subwords": {"gpt2": "a"}}, r"subwords: unknown key 'gpt2'; allowed are character_coverage, imported,"),
        ({"seed": -1}, r"seed: -1 is out of range"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config(write_config(tmp_path / "c.yaml", **changes))
