"""A base model that was stopped early is warned of; one that has settled is not."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fairseq_ext.recipes.translation.convergence import read_curve, warning, warning_of_control
from tests.recorded import HERE

LINE = (
    "2026-01-01 00:00:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss {loss:.3f} | nll_loss {bits:.3f} "
    "| loss_bank 1.0 | ppl 8.13 | wps 17315 | wpb 78.5 | bsz 5 | num_updates {update} | best_loss 3.024\n"
)
NOISE = "2026-01-01 00:00:00 | INFO | train | epoch 001 | loss 3.0 | nll_loss 9.9 | ppl 8 | num_updates 77\n"


def log(curve: dict[int, float]) -> str:
    return "".join(NOISE + LINE.format(loss=bits + 1, bits=bits, update=update) for update, bits in curve.items())


def test_validations_are_read_and_those_of_a_resumed_training_replaced(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(log({100: 5.0, 200: 4.5}) + log({200: 4.25, 300: 4.0}), encoding="utf-8")
    assert list(read_curve(path).items()) == [(100, 5.0), (200, 4.25), (300, 4.0)]
    real = read_curve(HERE / "translation" / "systems" / "mix" / "train.log")
    assert list(real) == [10, 20, 30, 40, 50, 60]
    assert warning("mix", real)


def test_a_base_that_gains_by_further_training_has_not_converged() -> None:
    assert warning_of_control("more", {100: 3.9}, "mix", {1000: 4.0})
    assert warning_of_control("more", {100: 3.97}, "mix", {1000: 4.0}) is None


@pytest.mark.parametrize(
    ("curve", "falls"),
    [
        ({900: 4.0, 1000: 4.0 - math.log2(1.02)}, True),
        ({900: 4.0, 1000: 4.0 - math.log2(1.005)}, False),
        ({800: 4.0, 900: 4.1, 950: 4.2, 1000: 4.3}, False),  # rises
        ({1000: 4.0}, False),  # validated once
        ({}, False),
        ({950: 4.0, 1000: 3.0}, False),  # not validated before the last tenth
    ],
)
def test_what_falls_by_more_than_a_hundredth_in_the_last_tenth_has_not_converged(
    curve: dict[int, float], falls: bool
) -> None:
    assert bool(warning("mix", curve)) == falls
