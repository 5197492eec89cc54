"""Which trainings go on when they are to be longer."""

from __future__ import annotations

from typing import Any

import pytest

from fairseq_ext.engine.fairseq_cli import as_arguments
from fairseq_ext.experiments.training import what_keeps_from_going_on

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
