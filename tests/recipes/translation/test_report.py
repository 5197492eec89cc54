"""Gates as records, and the recommendation."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.metrics.comparison import Comparison
from fairseq_ext.metrics.records import Record, Records
from fairseq_ext.recipes.translation.analyses import gate_records
from fairseq_ext.recipes.translation.config import load_config
from fairseq_ext.recipes.translation.report import recommend
from tests.recipes.translation.small_translation_experiment import write_translation_experiment


def test_gates_are_averaged_over_layers() -> None:
    found = {
        "domains": ["law", "med"],
        "layers": ["encoder 1", "decoder 1"],
        "weights": {"law": [[0.5, 0.5], [0.25, 0.75]], "med": [[1.0, 0.0], [0.5, 0.5]]},
        "agreement": [0.5, 1.0],
        "correct": [0.25, 0.75],
        "teacher_correct": 0.9,
        "source": {"agreement": [0.5], "correct": [0.25]},
    }
    records = Records(list(gate_records("gad@2", found)))
    assert records.by_run("gad", "weight of the gate of med", "law") == {"gad@2": 0.625}
    assert records.by_run("gad", "largest gate is the true domain", "mean") == {"gad@2": 50}
    assert records.by_run("gad", "largest gate is the true domain", "decoder 1") == {"gad@2": 75}
    assert records.domains("largest gate is the true domain, source alone") == ["mean"]


def scores(**averages: float) -> Records:
    return Records(
        [Record(system=name, run=name, domain="AVG", metric="chrF", value=v) for name, v in averages.items()]
    )


def gain(difference: float, p: float | None) -> list[Comparison]:
    return [Comparison("gad", "mix", "chrF", "all", difference, p=p, over="sentences")]


@pytest.mark.parametrize(
    ("records", "comparisons", "warnings", "advice"),
    [
        (scores(mix=50, gad=52), gain(2, 0.01), [], "Deploy gad: +2.00 chrF over mix"),
        (scores(mix=50, gad=52), gain(2, 0.2), [], "Deploy mix: gad gains +2.00 chrF"),
        (scores(mix=50, gad=52), gain(2, None), [], "Deploy mix: gad gains"),
        (scores(mix=53, gad=52), [], [], "Deploy mix: no system with adapters that needs no domain"),
        (scores(gad=52), [], [], "Deploy gad. No base model was scored"),
        (scores(mix=50, gad=52), gain(2, 0.01), ["mix is young"], "Deploy nothing yet: mix is young."),
        (scores(mix=20, gad=22), gain(2, 0.01), [], "Deploy nothing yet: gad is the best system"),
        (scores(mix=50, ft=60), [], [], "Deploy mix: no system with adapters that needs no domain is better. If the"),
        (Records(), [], [], "Nothing has been scored yet."),
    ],
)
def test_the_recommendation_is_what_was_shown(
    tmp_path: Path, records: Records, comparisons: list[Comparison], warnings: list[str], advice: str
) -> None:
    config = load_config(write_translation_experiment(tmp_path))
    assert recommend(config, records, comparisons, warnings).startswith(advice)
