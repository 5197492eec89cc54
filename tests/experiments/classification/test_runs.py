"""Which runs there are, and what a training is given: data, the checkpoint before it, and a schedule of its length."""

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import Step
from fairseq_ext.classifiers.task_split import TaskFacts, write_task_facts
from fairseq_ext.experiments import train as training
from fairseq_ext.experiments.classification.config import Classification
from fairseq_ext.experiments.classification.stages import ClassificationRecipe, num_updates
from fairseq_ext.experiments.config import named_run
from fairseq_ext.experiments.language_models import checkpoint_of
from fairseq_ext.experiments.registry import load_experiment
from tests.experiments.classification.small_experiment import ADAPTERS, write_short_classification_experiment

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
