"""The recommendation."""

from functools import partial
from pathlib import Path

import pytest

from fairseq_ext.metrics.comparison import Comparison
from fairseq_ext.metrics.records import Record, Records
from fairseq_ext.recipes.translation.config import load_config
from fairseq_ext.recipes.translation.convergence import BITS_BY_UPDATE
from fairseq_ext.recipes.translation.report import recommend
from tests.recipes.translation.small_translation_experiment import write_translation_experiment


def scores(**averages: float) -> Records:
    """The averages of systems; ``gad2`` is of a second run of ``gad``."""
    of = partial(Record, domain="AVG", metric="chrF")
    return Records([of(system=name.removesuffix("2"), run=name, value=value) for name, value in averages.items()])


# Of a base model whose loss still falls.
CURVE = [Record(run="mix", domain=str(at), metric=BITS_BY_UPDATE, value=bits) for at, bits in ((90, 4.0), (100, 3.0))]


def gain(difference: float, p: float | None) -> list[Comparison]:
    return [Comparison("gad", "mix", "chrF", "all", difference, p=p, over="sentences")]


@pytest.mark.parametrize(
    ("records", "comparisons", "advice"),
    [
        (scores(mix=50, gad=52), gain(2, 0.01), "Deploy gad: +2.00 chrF over mix"),
        (scores(mix=50, gad=52), gain(2, 0.2), "Deploy mix: gad gains +2.00 chrF"),
        (scores(mix=50, gad=52), gain(2, None), "Deploy mix: gad gains"),
        (scores(mix=50, gad=49, gad2=55), gain(2, 0.01), "Deploy mix: gad gains +2.00 chrF"),
        (scores(mix=53, gad=52), [], "Deploy mix: no other system"),
        (scores(gad=52), [], "Deploy gad. No base model was scored"),
        (Records([*scores(mix=50, gad=52), *CURVE]), gain(2, 0.01), "Deploy nothing yet: mix has not converged"),
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
