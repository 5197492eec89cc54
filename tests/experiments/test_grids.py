"""What can be tried of a system's options, and what every trial is called."""

from __future__ import annotations

from typing import Any

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.grids import combinations, name_of, num_trials, read_grid, with_values


def test_every_combination_of_values_is_a_trial() -> None:
    grid = read_grid({"lr": [0.002, "6e-3"], "freeze_output_embedding": [True, False]}, "tune")
    assert num_trials(grid) == 4
    assert [name_of(values) for values in combinations(grid)] == [
        "lr=0.002,freeze-output-embedding=true", "lr=0.002,freeze-output-embedding=false",
        "lr=0.006,freeze-output-embedding=true", "lr=0.006,freeze-output-embedding=false",
    ]  # fmt: skip
    assert num_trials({}) == 1


@pytest.mark.parametrize("spelling", [0.002, "0.002", "2e-3"])
def test_a_number_is_one_value_however_it_is_spelled(spelling: Any) -> None:
    assert read_grid({"lr": [spelling]}, "tune") == {"lr": (0.002,)}


def test_whole_numbers_stay_whole() -> None:
    [trial] = combinations(read_grid({"warmup-updates": ["50"]}, "tune"))
    assert trial == {"warmup-updates": 50}
    assert type(trial["warmup-updates"]) is int


def test_a_value_takes_the_place_of_every_spelling() -> None:
    assert with_values({"clip_norm": 1, "lr": 3}, {"clip-norm": 2}) == {"lr": 3, "clip-norm": 2}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ([0.1], "tune: expected keys and values"),
        ({}, "tune: names no option; give one with the values to try, or write null for no trials"),
        ({"lr": []}, r"tune: lr: expected a list of values to try, got \[\]"),
        ({"lr": 0.1}, "tune: lr: expected a list of values to try, got 0.1"),
        ({"lr": {"from": 1}}, "tune: lr: expected a list of values to try"),
        ({"lr": [0.1, 0.2, "1e-1"]}, "tune: lr: '1e-1' is there twice"),
        ({"lr": [1, 1.0]}, "tune: lr: 1.0 is there twice"),
        ({"x": [True, "true"]}, "tune: x: 'true' is there twice"),
        ({"lr": [[0.1]]}, r"tune: lr: expected numbers, words, true or false, got \[0.1\]"),
        ({"lr": [None]}, "tune: lr: expected numbers, words, true or false, got None"),
        ({"lr": [float("nan")]}, "tune: lr: expected numbers"),
        ({"lr": ["inf"]}, "tune: lr: expected numbers"),
        ({"file": ["a/b"]}, "tune: file: expected numbers, words, true or false, got 'a/b'"),
        ({"x": ["a\nb"]}, "tune: x: expected numbers"),
        ({"clip-norm": [1], "clip_norm": [2]}, "tune: clip_norm: is there twice, with '-' and with '_'"),
        ({"seed": [1, 2]}, "tune: seed: makes trials that cannot be compared; write systems of their own"),
        ({"train_domains": ["a", "b"]}, "tune: train_domains: makes trials"),
        ({"a b": [1]}, "tune: 'a b' is no name of an option"),
        ({"lr": list(range(101))}, "tune: lr: 101 values are more than 100"),
        ({"a": list(range(20)), "b": list(range(20))}, "tune: more than 100 trials of a system"),
        ({"a": ["x" * 99]}, "tune: trials would have names of more than 100 letters"),
    ],
)
def test_mistakes_are_named_in_one_line(section: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_grid(section, "tune")
    assert "\n" not in str(caught.value)
