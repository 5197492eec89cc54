"""What classifiers are trained on: data of which none is tested on, runs, checkpoints before them, and schedules."""

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import Step
from fairseq_ext.classifiers.predictions import read_set
from fairseq_ext.classifiers.task_split import TaskFacts, held_out_texts, read_task_facts, set_path, write_task_facts
from fairseq_ext.experiments import train as training
from fairseq_ext.experiments.classification.config import Classification
from fairseq_ext.experiments.classification.stages import ClassificationRecipe, num_updates
from fairseq_ext.experiments.config import named_run
from fairseq_ext.experiments.language_models import checkpoint_of
from fairseq_ext.experiments.registry import load_experiment
from fairseq_ext.text.folded_text import fold
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import load_subwords
from fairseq_ext.text.text_files import read_lines
from tests.experiments.classification.small_experiment import ADAPTERS, write_short_classification_experiment
from tests.verbs import verb

CLASSES = TaskFacts("classification", ["a", "b", "c"], 1, {"train": 81, "valid": 5, "test": 5}, {})
NUMBERS = TaskFacts("regression", [], 2, {"train": 80, "valid": 5, "test": 5}, {})


def config_of(folder: Path, **systems: Any) -> Classification:
    train = {"systems": {"base": {"arch": "roberta_tiny"}, **systems}}
    return load_experiment(write_short_classification_experiment(folder, train=train)).experiment


def step_of(config: Classification, name: str) -> Step:
    return ClassificationRecipe(config).train_run(named_run(config.runs[name.partition("@")[0]], name, "runs"))


def test_an_imported_base_is_not_trained(tmp_path: Path) -> None:
    config = config_of(tmp_path, base={"checkpoint": str(tmp_path / "roberta.pt")}, x=ADAPTERS)
    [base] = config.runs["base"]
    recipe = ClassificationRecipe(config)
    with pytest.raises(InputError, match=r"systems: base: checkpoint: .*roberta\.pt"):
        recipe.train("base")
    (tmp_path / "roberta.pt").touch()
    assert recipe.train("base") == []
    assert step_of(config, "x@place").inputs[1] == checkpoint_of(config, base) == tmp_path / "roberta.pt"


BY_ACCURACY = {"best-checkpoint-metric": "accuracy", "maximize-best-checkpoint-metric": ""}


@pytest.mark.parametrize(
    ("facts", "given", "expected"),
    [
        (CLASSES, {}, {"num-classes": "3", **BY_ACCURACY, "total-num-update": "22", "warmup-updates": "2"}),
        # Pairs and numbers; and a schedule of the file, which has no number of updates.
        (
            NUMBERS,
            {"lr-scheduler": "fixed", "warmup-updates": 7},
            {"num-classes": "1", "regression-target": "", "separator-token": "2", "warmup-updates": "7"},
        ),
    ],
)
def test_head_metric_and_schedule_follow_from_the_data_or_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: TaskFacts, given: dict[str, Any], expected: dict[str, str]
) -> None:
    lines: list[list[str]] = []
    monkeypatch.setattr(training, "run_training", lambda label, arguments, log: lines.append(list(arguments)))
    step = step_of(config_of(tmp_path, x={**ADAPTERS, **given}), "x@verb")
    step.inputs[0].mkdir(parents=True)
    write_task_facts(step.inputs[0], facts)
    step.build(step.output)
    [line] = lines
    assert line[0] == str(step.inputs[0])
    # The last of an option counts.
    options = {each[2:]: value for each, value in zip(line, [*line[1:], ""], strict=True) if each.startswith("--")}
    names = {"num-classes", "regression-target", "separator-token", "total-num-update", "warmup-updates", *BY_ACCURACY}
    found = {name: "" if value.startswith("--") else value for name, value in options.items() if name in names}
    assert found == expected
    assert options["lr-scheduler"] == given.get("lr-scheduler", "polynomial_decay")


@pytest.mark.parametrize(
    ("options", "workers", "expected"),
    [
        ({"batch_size": 27, "max_epoch": 4}, 1, 12),  # 81 sentences: 3 batches
        ({"batch-size": 16, "max-epoch": 2, "update-freq": 2}, 1, 6),
        ({"batch-size": 16, "max-epoch": 2}, 2, 6),
        ({"batch-size": 32, "max-epoch": 4, "max-update": 5}, 1, 5),
        ({"batch-size": 32, "max-update": 50}, 1, 50),
    ],
)
def test_updates_are_counted(options: dict[str, Any], workers: int, expected: int) -> None:
    assert num_updates(CLASSES, options, workers) == expected


def test_there_is_a_run_for_each_task_and_seed(tmp_path: Path) -> None:
    config = config_of(tmp_path, x={**ADAPTERS, "tasks": ["size", "place"], "seeds": [1, 2]}, y=ADAPTERS)
    assert {name: [run.name for run in runs] for name, runs in config.runs.items()} == {
        "base": ["base"],
        "x": ["x@size@1", "x@place@1", "x@size@2", "x@place@2"],
        "y": ["y@place", "y@verb", "y@same", "y@size"],
    }
    assert config.task_runs == [*config.runs["x"], *config.runs["y"]]


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


@pytest.mark.slow  # workers load fairseq for every set
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


@pytest.mark.slow  # workers load fairseq for every set
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


@pytest.mark.slow  # workers load fairseq for every set
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
