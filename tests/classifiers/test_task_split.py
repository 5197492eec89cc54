"""The sets of a task: none gives another away, and what is held out is of all classes."""

from collections import Counter
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.classifiers.task_split import (
    ClassificationSplit,
    ClassificationTask,
    TaskFacts,
    held_out_texts,
    read_task_facts,
    set_path,
    write_task_splits,
)
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.text_files import read_lines
from tests.experiments.classification.small_experiment import write_tsv

Rows = list[tuple[str, ...]]
FIFTHS = ClassificationSplit(task_valid=0.2, task_test=0.2)


def split(folder: Path, options: ClassificationSplit = FIFTHS, **tables: Rows) -> TaskFacts:
    """Split a task with these tables of one or two texts, and return what ``task.json`` says."""
    folder.mkdir(exist_ok=True)
    paths = {role: folder / f"{role}.tsv" for role in tables}
    texts = ("text", "text2")[: len(tables["train"][0]) - 1]
    for role, rows in tables.items():
        write_tsv(paths[role], rows, ("label", *texts))
    task = ClassificationTask(**paths, text2=None if len(texts) == 1 else "text2")
    write_task_splits(folder, "mood", task, options=options, seed=1)
    return read_task_facts(folder)


def rows_of(folder: Path, role: str, *parts: str) -> Rows:
    return list(zip(*(read_lines(set_path(folder, part, role)) for part in ("label", "input0", *parts)), strict=True))


def test_given_sets_lose_what_later_ones_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train: Rows = [("b", "One"), ("a", "two"), ("a", "three "), ("b", "five"), ("a", "five"), ("a", "one")]
    valid: Rows = [("a", "TWO"), ("b", "six"), ("a", "ONE")]
    facts = split(tmp_path, train=train, valid=valid, test=[("a", "Three"), ("a", "one")])
    assert rows_of(tmp_path, "test") == [("a", "Three"), ("a", "one")]
    assert rows_of(tmp_path, "valid") == [("a", "TWO"), ("b", "six")]
    assert rows_of(tmp_path, "train") == [("b", "five"), ("a", "five")]
    counts, removed = {"train": 2, "valid": 2, "test": 2}, {"train": 4, "valid": 1}
    assert facts == TaskFacts("classification", ["a", "b"], 1, counts, removed)
    said = capsys.readouterr().err
    assert said == "mood: 2 train, 2 valid, 2 test; 2 classes; removed because held out: 4 of train and 1 of valid\n"
    assert set(held_out_texts(tmp_path)) == {"three", "one", "two", "six"}


def test_missing_sets_are_shares_of_every_class(tmp_path: Path) -> None:
    rows: Rows = [("often" if number % 4 else "seldom", f"text {number}") for number in range(100)]
    split(tmp_path, train=rows)
    sets = {role: rows_of(tmp_path, role) for role in SPLITS}
    assert sorted(row for role in SPLITS for row in sets[role]) == sorted(rows)
    for role, share in (("train", 3), ("valid", 1), ("test", 1)):
        assert Counter(row[0] for row in sets[role]) == {"often": 15 * share, "seldom": 5 * share}
    assert sets["train"] == [row for row in rows if row in sets["train"]]  # in their order
    # A sample of the training set depends on its texts, not on their order, and leaves the other sets as they are.
    few = ClassificationSplit(task_valid=0.2, task_test=0.2, task_train=30)
    assert split(tmp_path / "few", few, train=rows).counts == {"train": 30, "valid": 20, "test": 20}
    drawn = rows_of(tmp_path / "few", "train")
    assert [row for row in sets["train"] if row in drawn] == drawn != sets["train"][:30]
    assert rows_of(tmp_path / "few", "test") == sets["test"]
    split(tmp_path / "back", few, train=rows[::-1])
    assert rows_of(tmp_path / "back", "train") == drawn[::-1]


def test_pairs_are_compared_as_pairs(tmp_path: Path) -> None:
    train: Rows = [("a", "x", "y"), ("b", "y", "x"), ("a", "p", "q"), ("b", "q", "p")]
    facts = split(tmp_path, train=train, test=[("a", "X", "y")], valid=[("b", "xy", "z")])
    assert rows_of(tmp_path, "train", "input1") == train[1:]
    assert facts.inputs == ["input0", "input1"]
    assert set(held_out_texts(tmp_path)) == {"x", "y", "xy", "z"}


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ([("a", "x"), ("b", "y")], [("c", "z")]),  # a class without training examples
        ([("a", "x"), ("b", "y")], [("a", "x"), ("b", "y")]),  # nothing left to train on
        ([("a", "x"), ("a", "y")], [("a", "z")]),  # a single class
    ],
)
def test_unusable_tasks_are_named(tmp_path: Path, train: Rows, test: Rows) -> None:
    with pytest.raises(InputError, match=r"^mood: "):
        split(tmp_path, train=train, valid=[("a", "v")], test=test)
