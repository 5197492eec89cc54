"""Which runs there are, and what a training is given: data, the checkpoint before it, and a schedule of its length."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.classifiers.task_data import TaskFacts, write_task_facts
from fairseq_ext.classifiers.training import num_updates
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes import train as training
from fairseq_ext.recipes.classification.config import Classification
from fairseq_ext.recipes.classification.stages import training_step
from fairseq_ext.recipes.config import named_run
from fairseq_ext.recipes.language_models import checkpoint_of, training_steps
from tests.recipes.classification.small_experiment import ADAPTERS, load, write_classification_experiment

CLASSES = TaskFacts("classification", ["a", "b", "c"], 1, {"train": 81, "valid": 5, "test": 5}, {})
NUMBERS = TaskFacts("regression", [], 2, {"train": 80, "valid": 5, "test": 5}, {})


def config_of(folder: Path, **systems: Any) -> Classification:
    return load(
        write_classification_experiment(folder, train={"systems": {"base": {"arch": "roberta_tiny"}, **systems}})
    )


def step_of(config: Classification, name: str) -> Step:
    return training_step(config, named_run(config.runs[name.partition("@")[0]], name, "runs"))


def options_of(config: Classification, run: str, facts: TaskFacts, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What fairseq-train takes from its command line for a run whose task has these data; the last of an option."""
    lines: list[list[str]] = []
    monkeypatch.setattr(training, "run_training", lambda label, arguments, log: lines.append(list(arguments)))
    step = step_of(config, run)
    step.inputs[0].mkdir(parents=True)
    write_task_facts(step.inputs[0], facts)
    step.build(step.output)
    [line] = lines
    assert line[0] == str(step.inputs[0])
    return {option[2:]: value for option, value in zip(line, [*line[1:], ""], strict=True) if option.startswith("--")}


def test_an_imported_base_is_not_trained(tmp_path: Path) -> None:
    config = config_of(tmp_path, base={"checkpoint": str(tmp_path / "roberta.pt")}, x=ADAPTERS)
    [base] = config.runs["base"]
    train = partial(training_step, config)
    with pytest.raises(InputError, match=r"systems: base: checkpoint: .*roberta\.pt"):
        training_steps(config, "base", train)
    (tmp_path / "roberta.pt").touch()
    assert training_steps(config, "base", train) == []
    assert step_of(config, "x@place").inputs[1] == checkpoint_of(config, base) == tmp_path / "roberta.pt"


def test_the_head_and_the_schedule_follow_from_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_of(config_of(tmp_path, full={**ADAPTERS, "tuning": "full"}), "full@verb", CLASSES, monkeypatch)
    expected = {
        "task": "task_prediction", "criterion": "sentence_prediction", "num-classes": "3", "init-token": "0",
        "classification-head-name": "verb", "best-checkpoint-metric": "accuracy", "total-num-update": "22",
        "warmup-updates": "2", "shorten-method": "truncate", "required-batch-size-multiple": "1",
    }  # fmt: skip
    assert {name: options[name] for name in expected} == expected
    assert "maximize-best-checkpoint-metric" in options
    assert not {"regression-target", "separator-token"} & options.keys()


def test_pairs_and_numbers_have_options_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {**ADAPTERS, "warmup-updates": 7, "lr-scheduler": "fixed"}
    options = options_of(config_of(tmp_path, x=given), "x@size", NUMBERS, monkeypatch)
    assert (options["num-classes"], options["separator-token"]) == ("1", "2")
    assert "regression-target" in options
    assert "best-checkpoint-metric" not in options  # the loss
    # What the file says counts, and a schedule of its own has no number of updates.
    assert (options["warmup-updates"], options["lr-scheduler"]) == ("7", "fixed")
    assert "total-num-update" not in options


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
    names = {name: [run.name for run in runs] for name, runs in config.runs.items()}
    assert names == {
        "base": ["base"],
        "x": ["x@size@1", "x@place@1", "x@size@2", "x@place@2"],
        "y": ["y@place", "y@verb", "y@same", "y@size"],
    }
    last = config.runs["x"][-1]
    assert (last.domain, last.seed, last.system.name) == ("place", 2, "x")
    assert [run.name for run in config.task_runs] == [*names["x"], *names["y"]]
