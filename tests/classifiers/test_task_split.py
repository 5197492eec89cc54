"""The sets of a task: none gives another away, and what is held out is of all classes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fairseq_ext.classifiers.task_data import TaskFacts, read_task_facts
from fairseq_ext.classifiers.task_split import (
    ClassificationSplit,
    ClassificationTask,
    held_out_texts,
    set_path,
    write_task_splits,
)
from fairseq_ext.corpora.split import SPLITS
from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.inputs.errors import InputError
from tests.recipes.classification.small_experiment import write_tsv

Rows = list[tuple[str, str]]
FIFTHS = ClassificationSplit(task_valid=0.2, task_test=0.2)


def split(
    folder: Path,
    train: Rows,
    valid: Rows | None = None,
    test: Rows | None = None,
    seed: int = 1,
    options: ClassificationSplit = FIFTHS,
) -> TaskFacts:
    """Split a task with these rows, and return what ``task.json`` says."""
    folder.mkdir(exist_ok=True)
    paths = {}
    for role, rows in (("train", train), ("valid", valid), ("test", test)):
        if rows is not None:
            paths[role] = folder / f"{role}.tsv"
            write_tsv(paths[role], rows)
    write_task_splits(folder, "mood", ClassificationTask(**paths), options=options, seed=seed)
    return read_task_facts(folder)


def rows_of(folder: Path, role: str) -> Rows:
    parts = (read_lines(set_path(folder, part, role)) for part in ("label", "input0"))
    return list(zip(*parts, strict=True))


def test_given_sets_lose_what_later_ones_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = [("b", "One"), ("a", "two"), ("a", "three "), ("b", "five"), ("a", "five"), ("a", "one")]
    facts = split(tmp_path, train, valid=[("a", "TWO"), ("b", "six")], test=[("a", "Three"), ("a", "one")])
    assert rows_of(tmp_path, "test") == [("a", "Three"), ("a", "one")]
    assert rows_of(tmp_path, "valid") == [("a", "TWO"), ("b", "six")]
    assert rows_of(tmp_path, "train") == [("b", "five"), ("a", "five")]
    counts, removed = {"train": 2, "valid": 2, "test": 2}, {"train": 4, "valid": 0}
    assert facts == TaskFacts("classification", ["a", "b"], 1, counts, removed)
    said = capsys.readouterr().err
    assert said == "mood: 2 train, 2 valid, 2 test; 2 classes; removed because held out: 4 of train and 0 of valid\n"
    assert set(held_out_texts(tmp_path)) == {"three", "one", "two", "six"}


def test_missing_sets_are_shares_of_every_class(tmp_path: Path) -> None:
    rows = [("often" if number % 4 else "seldom", f"text {number}") for number in range(100)]
    split(tmp_path, rows)
    sets = {role: rows_of(tmp_path, role) for role in SPLITS}
    assert sorted(row for role in SPLITS for row in sets[role]) == sorted(rows)
    for role, share in (("train", 3), ("valid", 1), ("test", 1)):
        assert Counter(label for label, _ in sets[role]) == {"often": 15 * share, "seldom": 5 * share}
    assert sets["train"] == [row for row in rows if row in sets["train"]]  # in their order


def test_no_more_is_trained_on_than_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("ab"[number % 2], f"text {number}") for number in range(100)]
    few = ClassificationSplit(task_valid=0.2, task_test=0.2, task_train=30)
    assert split(tmp_path / "few", rows, options=few).counts == {"train": 30, "valid": 20, "test": 20}
    assert "mood: trains on 30 of 60 examples" in capsys.readouterr().err
    split(tmp_path / "all", rows)
    drawn, every = rows_of(tmp_path / "few", "train"), rows_of(tmp_path / "all", "train")
    assert [row for row in every if row in drawn] == drawn != every[:30]
    split(tmp_path / "back", rows[::-1], options=few)
    assert rows_of(tmp_path / "back", "train") == drawn[::-1]
    assert rows_of(tmp_path / "few", "test") == rows_of(tmp_path / "all", "test")


def test_pairs_are_compared_as_pairs(tmp_path: Path) -> None:
    header = ("label", "text", "text2")
    write_tsv(tmp_path / "train.tsv", [("a", "x", "y"), ("b", "y", "x"), ("a", "p", "q"), ("b", "q", "p")], header)
    write_tsv(tmp_path / "test.tsv", [("a", "X", "y")], header)
    write_tsv(tmp_path / "valid.tsv", [("b", "xy", "z")], header)
    paths = {role: tmp_path / f"{role}.tsv" for role in SPLITS}
    write_task_splits(tmp_path, "pair", ClassificationTask(**paths, text2="text2"), options=FIFTHS, seed=1)
    assert rows_of(tmp_path, "train") == [("b", "y"), ("a", "p"), ("b", "q")]
    assert read_lines(set_path(tmp_path, "input1", "train")) == ["x", "q", "p"]
    assert read_task_facts(tmp_path).inputs == ["input0", "input1"]
    assert set(held_out_texts(tmp_path)) == {"x", "y", "xy", "z"}


@pytest.mark.parametrize(
    ("train", "valid", "test"),
    [
        ([("a", "x"), ("b", "y")], [("a", "v")], [("c", "z")]),  # a class without training examples
        ([("a", "x"), ("b", "y")], [("a", "v")], [("a", "x"), ("b", "y")]),  # nothing left to train on
        ([("a", "x"), ("a", "y")], [("a", "v")], [("a", "z")]),  # a single class
    ],
)
def test_unusable_tasks_are_named(tmp_path: Path, train: Rows, valid: Rows | None, test: Rows) -> None:
    with pytest.raises(InputError, match=r"^mood: "):
        split(tmp_path, train, valid=valid, test=test)


@pytest.mark.parametrize("text", ["{", "{}", '{"kind": 1, "x": 2}'])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "task.json").write_text(text)
    with pytest.raises(InputError, match=r"task\.json: .*prepare again$"):
        read_task_facts(tmp_path)
