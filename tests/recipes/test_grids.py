"""What can be tried of a system's options, and what every trial is called."""

from __future__ import annotations

from typing import Any

import pytest

from fairseq_ext.recipes.grids import check_grid, combinations, name_of, with_values


def test_every_combination_of_values_is_a_trial() -> None:
    grid = check_grid({"lr": [0.002, "6e-3"], "freeze_output_embedding": [True, False]})
    assert [name_of(values) for values in combinations(grid)] == [
        "lr=0.002,freeze-output-embedding=true", "lr=0.002,freeze-output-embedding=false",
        "lr=0.006,freeze-output-embedding=true", "lr=0.006,freeze-output-embedding=false",
    ]  # fmt: skip
    assert with_values({"clip_norm": 1, "lr": 3}, {"clip-norm": 2}) == {"lr": 3, "clip-norm": 2}


@pytest.mark.parametrize(
    ("section", "option"),
    [
        ({"lr": []}, "lr: "),
        ({"lr": [0.1, 0.2, "1e-1"]}, "lr: "),
        ({"lr": [float("nan")]}, "lr: "),
        ({"lr": ["../x"]}, "lr: "),
        ({"seed": [1, 2]}, "seed: "),
        ({"lr": list(range(101))}, "more than 100 trials"),
    ],
)
def test_the_option_of_a_mistake_is_named(section: Any, option: str) -> None:
    with pytest.raises(ValueError, match=f"^{option}"):
        check_grid(section)
