"""The recommendation."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.metrics.comparison import Comparison
from fairseq_ext.metrics.records import Record, Records
from fairseq_ext.recipes.translation.config import load_config
from fairseq_ext.recipes.translation.convergence import BITS_BY_UPDATE
from fairseq_ext.recipes.translation.report import recommend
from tests.recipes.translation.small_translation_experiment import write_translation_experiment


def scores(**averages: float | tuple[float, ...]) -> Records:
    """The averages of systems, of one run or of several."""
    runs = {name: found if isinstance(found, tuple) else (found,) for name, found in averages.items()}
    return Records(
        [
            Record(system=name, run=f"{name}@{number}", domain="AVG", metric="chrF", value=value)
            for name, values in runs.items()
            for number, value in enumerate(values)
        ]
    )


def young(records: Records) -> Records:
    """The same, and a base model whose loss still falls."""
    falling = {90: 4.0, 100: 3.0}
    curve = [Record(run="mix", domain=str(at), metric=BITS_BY_UPDATE, value=bits) for at, bits in falling.items()]
    return Records([*records, *curve])


def gain(difference: float, p: float | None) -> list[Comparison]:
    return [Comparison("gad", "mix", "chrF", "all", difference, p=p, over="sentences")]


@pytest.mark.parametrize(
    ("records", "comparisons", "advice"),
    [
        (scores(mix=50, gad=52), gain(2, 0.01), "Deploy gad: +2.00 chrF over mix"),
        (scores(mix=50, gad=52), gain(2, 0.2), "Deploy mix: gad gains +2.00 chrF"),
        (scores(mix=50, gad=52), gain(2, None), "Deploy mix: gad gains"),
        (scores(mix=50, gad=(49, 55)), gain(2, 0.01), "Deploy mix: gad gains +2.00 chrF"),
        (scores(mix=53, gad=52), [], "Deploy mix: no other system"),
        (scores(gad=52), [], "Deploy gad. No base model was scored"),
        (young(scores(mix=50, gad=52)), gain(2, 0.01), "Deploy nothing yet: mix has not converged"),
        (scores(mix=20, gad=22), gain(2, 0.01), "Deploy nothing yet: the best system, gad, is not usable"),
        (scores(mix=50, ft=60), [], "Deploy mix: no other system that works without domain labels is better. If the"),
        (Records(), [], "Nothing has been scored yet."),
    ],
)
def test_the_recommendation_is_what_was_shown(
    tmp_path: Path, records: Records, comparisons: list[Comparison], advice: str
) -> None:
    config = load_config(write_translation_experiment(tmp_path))
    assert recommend(config, records, comparisons).startswith(advice)
