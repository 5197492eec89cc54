"""The preparation of classifiers: fairseq's own tasks read what it writes, and nothing tested on is trained on."""

from pathlib import Path

import pytest

from fairseq_ext.classifiers.predictions import read_set
from fairseq_ext.classifiers.task_split import held_out_texts, read_task_facts, set_path
from fairseq_ext.experiments.classification.stages import ClassificationRecipe
from fairseq_ext.experiments.registry import load_experiment
from fairseq_ext.text.folded_text import fold
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import load_subwords
from fairseq_ext.text.text_files import read_lines
from tests.experiments.classification.small_experiment import write_short_classification_experiment
from tests.verbs import verb

# Workers load fairseq for every set.
pytestmark = pytest.mark.slow

TASKS = ("place", "verb", "same", "size")


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a prepared experiment, in the text of whose base some held-out sentences occur."""
    folder = tmp_path_factory.mktemp("prepared")
    path = write_short_classification_experiment(folder)
    verb("prepare")([str(path), "--workers", "1", "--to", "corpora"])
    with (folder / "text" / "bank_ask.txt").open("a") as file:
        file.writelines(f"{line.upper()}\n" for line in sorted(held_out_texts(folder / "work/tasks/place")))
    verb("prepare")([str(path), "--workers", "1"])
    return path


def test_fairseq_reads_what_was_written(experiment: Path) -> None:
    config = load_experiment(experiment).experiment
    processor = load_subwords(config.work_dir / "subwords/sentencepiece.model")
    facts = read_task_facts(config.task_data("same"))
    for role in SPLITS:
        texts, targets = read_set(config.task_data("same"), role, 64)
        parts = (read_lines(set_path(config.raw_task("same"), part, role)) for part in ("label", "input0", "input1"))
        for label, one, other, target, text in zip(*parts, targets, texts, strict=True):
            assert facts.labels[target] == label
            # A piece's number in the model is its number in the dictionary; <s> is 0, </s> is 2.
            expected = [0, *processor.encode(one), 2, 2, *processor.encode(other), 2]
            assert text.tolist() == expected


def test_the_base_reads_no_sentence_that_is_tested_on(experiment: Path) -> None:
    """They were in its text, in capitals."""
    work = experiment.parent / "work"
    held_out = set(held_out_texts(work / "tasks/place"))
    corpus = read_lines(work / "corpora/bank_ask.txt")
    assert len([line for line in corpus if fold(line) in held_out]) == len(held_out)
    for role in ("train", "valid"):
        files = [work / f"splits/{name}/{role}.txt" for name in ("bank_ask", "garden_do")]
        lines = {fold(line) for file in files for line in read_lines(file)}
        assert lines
        assert not lines & held_out


def test_imported_subwords_take_the_place_of_text(experiment: Path, tmp_path: Path) -> None:
    subwords = experiment.parent / "work/subwords"
    path = write_short_classification_experiment(tmp_path, subwords={"imported": str(subwords)}, corpora=None)
    path.write_text(path.read_text().replace("corpora: null\n", ""))
    steps = ClassificationRecipe(load_experiment(path).experiment).prepare()
    assert [step.output.name for step in steps] == [*TASKS, "subwords", *TASKS]
    verb("prepare")([str(path), "--workers", "1"])
    for name in ("dict.txt", "sentencepiece.model"):
        assert (tmp_path / "work/subwords" / name).read_bytes() == (subwords / name).read_bytes()
    mine, theirs = (folder / "work/data-bin/verb/input0/train.bin" for folder in (tmp_path, experiment.parent))
    assert mine.read_bytes() == theirs.read_bytes()
