"""The report of a tiny real run: its records to the last digit, and one rendered page."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.recipes.hierarchy.config import Hierarchy
from fairseq_ext.recipes.hierarchy.measurement import loss
from fairseq_ext.recipes.hierarchy.report import page, report
from fairseq_ext.recipes.registry import load_experiment
from fairseq_ext.report.measurements import Record, Records
from tests.recipes.small_lm_experiment import write_lm_experiment
from tests.recorded import restore

# Nats per token on the unseen domain, by run and routing.
GOLDEN = {
    ("base", "none"): 1.814066190260275,
    ("single", "all"): 1.8065064197326257,
    ("single", "path:garden_do"): 1.7986129737726533,
    ("single", "best path"): 1.7986129737726533,
    ("single", "mean path"): 1.8067890310586237,
    ("multi", "all"): 1.782834150979031,
    ("manual", "all"): 1.8021398679700622,
    ("manual", "below:garden"): 1.8000196728843076,
    ("manual", "chosen:1"): 1.7993925078203379,
    ("manual", "chosen:2"): 1.8000196728843076,
    ("induced", "all"): 1.8015338737677427,
    ("induced", "chosen:1"): 1.7994613565824213,
    ("induced", "chosen:2"): 1.8000589908767652,
    ("induced", "sequence:2:4"): 1.8018678471618164,
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Hierarchy:
    found: Hierarchy = restore("hierarchy", write_lm_experiment(tmp_path_factory.mktemp("lm")))
    run_steps([report(found)])
    return found


@pytest.fixture(scope="module")
def text(experiment: Hierarchy) -> str:
    return (experiment.work_dir / "report/report.md").read_text(encoding="utf-8")


def test_trees_are_compared_with_the_base_and_other_adapters_or_as_the_file_says(tmp_path: Path) -> None:
    losses = {("base", "none"): 2.0, ("multi", "all"): 1.9, ("induced", "chosen:1"): 1.8, ("induced", "all"): 1.85}
    records = Records(
        [
            Record(system=system, run=f"{system}@{seed}", domain="new", metric=loss(routing), value=value + seed / 1000)
            for (system, routing), value in losses.items()
            for seed in (1, 2, 3)
        ]
    )
    _, experiment = load_experiment(write_lm_experiment(tmp_path))
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
