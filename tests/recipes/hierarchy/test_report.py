"""What the report compares."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fairseq_ext.metrics.records import Record, Records
from fairseq_ext.recipes.hierarchy.measurement import loss
from fairseq_ext.recipes.hierarchy.report import page
from fairseq_ext.recipes.registry import load_experiment
from tests.recipes.small_lm_experiment import write_lm_experiment
from tests.recorded import restore


def test_trees_are_compared_with_the_base_and_other_adapters_or_as_the_file_says(tmp_path: Path) -> None:
    losses = {("base", "none"): 2.0, ("multi", "all"): 1.9, ("induced", "chosen:1"): 1.8, ("induced", "all"): 1.85}
    records = Records(
        [
            Record(system=system, run=f"{system}@{seed}", domain="new", metric=loss(routing), value=value + seed / 1000)
            for (system, routing), value in losses.items()
            for seed in (1, 2, 3)
        ]
    )
    experiment = restore("hierarchy", write_lm_experiment(tmp_path))
    found = {(each.system, each.baseline): each for each in page(experiment, records).comparisons}
    assert found.keys() == {
        ("multi", "base"),
        *((f"induced: {paths}", baseline) for paths in ("1 path", "all paths") for baseline in ("base", "multi")),
    }
    one = found["induced: 1 path", "multi"]
    assert one.difference == pytest.approx(math.exp(1.802) - math.exp(1.902), rel=1e-4)
    assert one.p is not None
    assert one.p < 0.01
    _, experiment = load_experiment(write_lm_experiment(tmp_path, compare={"multi": ["base"]}))
    assert [(each.system, each.baseline) for each in page(experiment, records).comparisons] == [("multi", "base")]
