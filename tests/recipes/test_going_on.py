"""Which trainings go on when they are to be longer, and what stays of options that were given on a command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.engine.fairseq_cli import as_arguments
from fairseq_ext.engine.steps import Step, run_step
from fairseq_ext.experiments.translation.train import training_steps
from fairseq_ext.recipes.train import remembered_extra, what_keeps_from_going_on
from tests.experiments.test_training import CONFIG, config_of

BEFORE = {"max-epoch": 7, "lr": 0.1}


def obstacle(before: dict, now: dict, *extra: str, derived: tuple[str, ...] = (), given_before: Any = ()) -> str | None:
    return what_keeps_from_going_on(
        {"system": before, "extra": list(given_before)},
        {"system": now, "extra": list(extra)},
        lambda: [*derived, *as_arguments(now), *extra],
    )


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (BEFORE, {**BEFORE, "max-epoch": 8}),
        (BEFORE, {"max_epoch": 8, "lr": 0.1}),
        (BEFORE, {"lr": 0.1}),
        (BEFORE, {**BEFORE, "max-epoch": 0}),
        ({**BEFORE, "max-update": 10}, {**BEFORE, "max-update": 20, "max-epoch": 9}),
        ({**BEFORE, "lr-scheduler": "inverse_sqrt"}, {**BEFORE, "lr-scheduler": "inverse_sqrt", "max-epoch": 8}),
    ],
)
def test_a_training_that_is_only_longer_goes_on(before: dict, now: dict) -> None:
    assert obstacle(before, now) is None


@pytest.mark.parametrize(
    "now", [{**BEFORE, "max-epoch": 6}, {**BEFORE, "max-epoch": 8, "lr": 0.2}, {**BEFORE, "max-update": 100}]
)
def test_one_that_is_shorter_or_another_begins_again(now: dict) -> None:
    assert obstacle(BEFORE, now) == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lr-scheduler": "cosine"}, "lr-scheduler cosine depends on how long a training is"),
        ({"lr_scheduler": "polynomial_decay"}, "lr-scheduler polynomial_decay depends"),
        ({"lr-scheduler": "reduce_lr_on_plateau"}, "lr-scheduler reduce_lr_on_plateau depends"),
        ({"patience": 3}, "patience keeps it"),
        ({"restore-file": "base.pt", "reset-optimizer": True}, "restore-file keeps it"),
        ({"no-last-checkpoints": True}, "no-last-checkpoints keeps it"),
    ],
)
def test_one_that_looks_ahead_begins_again_and_says_so(options: dict, words: str) -> None:
    assert words in str(obstacle({**BEFORE, **options}, {**BEFORE, **options, "max-epoch": 8}))


def test_the_command_line_and_what_follows_from_the_data_count_too() -> None:
    assert obstacle(BEFORE, BEFORE, "--max-epoch", "8") is None
    assert obstacle(BEFORE, BEFORE, "--max-epoch=9", given_before=["--max-epoch", "8"]) is None
    assert obstacle(BEFORE, BEFORE, "--max-epoch", "6") == ""
    longer = {**BEFORE, "max-epoch": 8}
    assert obstacle(BEFORE, longer, "--fp16") == ""
    assert "polynomial_decay" in str(obstacle(BEFORE, longer, derived=("--lr-scheduler", "polynomial_decay")))


def made_with(folder: Path, **options: Any) -> Path:
    run_step(Step(folder / "systems" / "mix", [], options, lambda _: None))
    return folder / "systems" / "mix"


def test_options_of_a_command_line_stay_until_others_are_given(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    [step] = training_steps(config, "mix", ["--fp16"])
    made_with(tmp_path, **step.options)
    assert training_steps(config, "mix")[0].options == step.options
    assert training_steps(config, "gad")[0].options == step.options
    assert training_steps(config, "mix", ["--bf16"])[0].options["extra"] == ["--bf16"]
    assert "--fp16" in training_steps(config, "mix")[0].commands[0].extra


def test_what_the_file_says_anew_counts(tmp_path: Path) -> None:
    before = {"lr": 0.1, "max-epoch": 7}
    output = made_with(tmp_path, system=before, extra=["--max-epoch", "8", "--fp16"])
    assert remembered_extra(output, before, "system") == ["--max-epoch", "8", "--fp16"]
    assert remembered_extra(output, {**before, "max-epoch": 9}, "system") == ["--fp16"]
    assert remembered_extra(tmp_path / "nothing", before, "system") == []


def test_a_directory_that_an_earlier_version_made_remembers_nothing(tmp_path: Path) -> None:
    config = config_of(tmp_path, CONFIG)
    output = made_with(tmp_path, system={}, extra=["--fp16"])
    record = output / "step.json"
    record.write_text(record.read_text().replace('"made_from"', '"something"'))
    assert training_steps(config, "mix")[0].options["extra"] == []
