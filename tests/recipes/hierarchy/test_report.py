"""The report of a tiny real run: its records to the last digit, and one rendered page."""

from __future__ import annotations

import json
import math
import re
import statistics
from pathlib import Path

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.recipes.hierarchy.config import Hierarchy
from fairseq_ext.recipes.hierarchy.measurement import loss
from fairseq_ext.recipes.hierarchy.report import page, report
from fairseq_ext.recipes.registry import load_experiment
from fairseq_ext.report.measurements import Record, Records, read_records
from tests.recipes.small_lm_experiment import DOMAINS, write_lm_experiment
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


def row_of(text: str, title: str, row: str) -> list[str]:
    """A row of a table of the report."""
    table = text.split(f"### {title}")[1].split("###")[0]
    [line] = [line for line in table.splitlines() if line.startswith(f"| {row} |")]
    return [cell.strip(" *") for cell in line.strip("|").split("|")][1:]


def test_records_are_those_that_were_measured(experiment: Hierarchy) -> None:
    records = read_records(experiment.work_dir / "report/records.jsonl")
    assert {key: records.by_run(key[0], loss(key[1]), "garden_new")[key[0]] for key in GOLDEN} == GOLDEN
    votes = json.loads((experiment.work_dir / "paths/induced/votes.json").read_text(encoding="utf-8"))["garden_new"]
    assert records.by_run("induced", "votes, garden_do", "garden_new") == {"": votes["garden_do"]}


def test_the_report_has_the_papers_tables_and_figures(experiment: Hierarchy, text: str) -> None:
    assert re.findall(r"^### ((?:Table|Figure) \d)", text, re.MULTILINE) == [
        "Table 1",
        *("Figure 1", "Table 2", "Figure 3", "Table 3", "Figure 3", "Table 6", "Table 4", "Table 9"),
        *("Figure 2", "Figure 4", "Table 7", "Figure 3", "Table 5", "Figure 3", "Table 9"),
    ]
    html = (experiment.work_dir / "report/report.html").read_text(encoding="utf-8")
    assert html.count("<table>") == text.count("\n| :- |")
    assert html.count('src="data:image/svg+xml;base64,') == 7
    tree = (experiment.work_dir / "report/tree-induced.svg").read_text(encoding="utf-8")
    assert "cluster_1: bank_ask, garden_ask" in tree


def test_averages_are_perplexities_of_mean_losses(experiment: Hierarchy, text: str) -> None:
    records = read_records(experiment.work_dir / "report/records.jsonl")
    routings = {"base": "none", "single": "own", "manual": "own"}
    losses = [[records.by_run(name, loss(r), each)[name] for each in DOMAINS] for name, r in routings.items()]
    shown = row_of(text, "Table 2. Perplexity in domain: manual", "average")
    assert shown == [f"{math.exp(statistics.fmean(each)):.2f}" for each in losses]
    assert row_of(text, "Table 6. Single adapters on unseen domains: single", "garden_new")[-2] == (
        f"{math.exp(GOLDEN['single', 'best path']):.2f}"
    )


def test_chosen_paths_have_their_domains_and_support(text: str) -> None:
    assert row_of(text, "Table 9. Chosen paths: induced", "garden_new") == [
        "garden_do (55%); cluster_1 (30%): bank_ask, garden_ask"
    ]
    assert row_of(text, "Table 9. Chosen paths: manual", "garden_new") == ["garden_do (6.20); garden_ask (6.22)"]


def test_nothing_measured_is_no_error(tmp_path: Path) -> None:
    _, experiment = load_experiment(write_lm_experiment(tmp_path))
    text = page(experiment, Records()).markdown()
    assert text.count("Not measured yet.") > 5
    assert "Figure 3" not in text


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
