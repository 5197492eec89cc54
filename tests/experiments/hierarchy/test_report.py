"""The report of a tiny real run says its figures, in the paper's tables, and what is missing."""

from __future__ import annotations

import json
import math
import re
import statistics
from pathlib import Path

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.experiments.hierarchy.config import HierarchyExperiment, load_config
from fairseq_ext.experiments.hierarchy.report import make_report, report_step
from fairseq_ext.experiments.hierarchy.results import WORD, behind, loss, records_of_run
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Missing, Picture, Table
from fairseq_ext.report.records import RECORDS_FILE, Records, read_records
from fairseq_ext.report.writing import MARKDOWN_FILE, PAGE_FILE
from tests.experiments.small_lm_experiment import write_lm_experiment
from tests.recorded import restore

PLACES = ["bank_ask", "bank_do", "garden_ask", "garden_do"]


@pytest.fixture
def experiment(tmp_path: Path) -> HierarchyExperiment:
    return restore("hierarchy", write_lm_experiment(tmp_path))


@pytest.fixture
def blocks(experiment: HierarchyExperiment) -> dict[str, Table | Missing | Picture]:
    """Everything with a title."""
    report = make_report(experiment)
    return {block.title: block for section in report.sections for block in section.blocks if hasattr(block, "title")}  # type: ignore[misc,union-attr]


def loss_of(experiment: HierarchyExperiment, run: str, domain: str, routing: str, unit: str = "tokens") -> float:
    """A mean negative log-likelihood, as the run's file has it."""
    path = experiment.work_dir / "perplexity" / run / "perplexity.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["nats"][domain][routing] / found["sets"][domain][unit]


def rows_of(block: object) -> dict[str, list[str]]:
    assert isinstance(block, Table)
    return {row.name: [cell.text for cell in row.cells] for _, rows in block.groups for row in rows}


def best_of(block: object, row: str) -> list[str]:
    assert isinstance(block, Table)
    cells = next(each.cells for _, rows in block.groups for each in rows if each.name == row)
    return [column for column, cell in zip(block.columns, cells, strict=True) if cell.is_best]


def test_all_tables_and_pictures_are_there(blocks: dict[str, object]) -> None:
    assert [title for title in blocks if not title.startswith("Figure 3")] == [
        "The paper’s findings",
        "Table 1. Parameters and training of the adapters",
        "Figure 1. The tree manual",
        "Table 2. Perplexity in domain: manual",
        "Table 3. Perplexity on unseen domains: manual",
        "Table 6. Single adapters on unseen domains: single",
        "Table 4. Different paths: manual",
        "Table 9. Chosen paths: manual",
        "Figure 2. The tree induced",
        "Figure 4. Domains by cluster: induced",
        "Table 7. Perplexity in domain: induced",
        "Table 5. Perplexity on unseen domains: induced",
        "Choice by the first 4 tokens of every sequence: induced",
        "Table 9. Chosen paths: induced",
        "Perplexity per word, averaged over domains",
    ]


def test_perplexities_are_those_that_were_measured(experiment: HierarchyExperiment, blocks: dict[str, object]) -> None:
    table = blocks["Table 2. Perplexity in domain: manual"]
    assert isinstance(table, Table)
    assert list(table.columns) == ["base", "single", "manual"]
    losses = {
        domain: [loss_of(experiment, run, domain, "own" if run != "base" else "none") for run in table.columns]
        for domain in PLACES
    }
    # The average is the perplexity of the mean loss.
    losses["average"] = [statistics.fmean(each) for each in zip(*losses.values(), strict=True)]
    rows = rows_of(table)
    assert rows == {name: [f"{math.exp(loss):.2f}" for loss in found] for name, found in losses.items()}
    # Single runs show no winner.
    assert best_of(table, "average") == []


def test_what_is_chosen_on_the_test_set_does_not_compete(
    experiment: HierarchyExperiment, blocks: dict[str, object]
) -> None:
    table = blocks["Table 3. Perplexity on unseen domains: manual"]
    assert isinstance(table, Table)
    shown = dict(zip(table.columns, rows_of(table)["garden_new"], strict=True))
    paths = [loss_of(experiment, "single", "garden_new", f"path:{name}") for name in PLACES]
    assert shown["single: best"] == f"{math.exp(min(paths)):.2f}" == min(shown.values(), key=float)
    assert shown["single: mean"] == f"{math.exp(statistics.fmean(paths)):.2f}"


def test_chosen_paths_name_what_they_were_trained_on(
    experiment: HierarchyExperiment, blocks: dict[str, object]
) -> None:
    votes = rows_of(blocks["Table 9. Chosen paths: induced"])
    assert votes["garden_new"] == ["garden_do (55%)", "garden_do", "cluster_1 (30%)", "bank_ask, garden_ask"]
    path = experiment.work_dir / "perplexity/manual/perplexity.json"
    choices = json.loads(path.read_text(encoding="utf-8"))["choices"]
    leaves = [(leaf, choices["losses"]["garden_new"][leaf]) for leaf in choices["ranking"]["garden_new"][:2]]
    by_perplexity = rows_of(blocks["Table 9. Chosen paths: manual"])
    assert by_perplexity["garden_new"] == [
        text for leaf, loss in leaves for text in (f"{leaf} ({math.exp(loss):.2f})", leaf)
    ]
    assert "20 sequences" in " ".join(blocks["Table 9. Chosen paths: manual"].below.notes)  # type: ignore[attr-defined]


def test_findings_are_set_beside_the_papers(blocks: dict[str, object]) -> None:
    table = blocks["The paper’s findings"]
    assert isinstance(table, Table)
    by_tree = {heading: {row.name: row.cells for row in rows} for heading, rows in table.groups}
    paper, here = by_tree["induced: 4 domains"]["In domain, the tree beats one adapter for all"]
    columns = list(blocks["Table 7. Perplexity in domain: induced"].columns)  # type: ignore[attr-defined]
    rows = rows_of(blocks["Table 7. Perplexity in domain: induced"])
    tree, multi = ([float(row[columns.index(name)]) for row in rows.values()] for name in ("induced", "multi"))
    assert paper.text == "yes: 21.0, 22.3"
    verdict = "yes" if tree[-1] < multi[-1] else "no"
    lower = sum(low < high for low, high in zip(tree[:-1], multi[:-1], strict=True))
    assert here.text == f"{verdict}: {tree[-1]:.2f}, {multi[-1]:.2f}; lower in {lower} of 4 domains"
    rows = by_tree["manual: 4 domains"]  # type: ignore[assignment]
    assert rows["In domain, the tree beats one adapter for all"][1].text == "not measured"  # type: ignore[attr-defined]
    assert rows["Unseen: two paths beat one"][1].text.startswith("equal: ")  # type: ignore[attr-defined]
    # Its Table 4, the best of four paths for each of seven domains.
    best = [17.6, 23.3, 20.7, 27.7, 29.4, 37.0, 25.5]
    assert rows["Unseen: two paths beat one"][0].text == f"yes: 23.8, {sum(best) / len(best):.1f}"  # type: ignore[attr-defined]


def test_other_paths_are_shown_by_leaf_and_family(blocks: dict[str, object]) -> None:
    table = blocks["Table 4. Different paths: manual"]
    assert isinstance(table, Table)
    assert list(table.columns) == [*PLACES, "bank: 2 paths", "garden: 2 paths"]


def test_words_count_too(experiment: HierarchyExperiment, blocks: dict[str, object]) -> None:
    rows = rows_of(blocks["Perplexity per word, averaged over domains"])
    assert rows["multi"][1] == f"{math.exp(loss_of(experiment, 'multi', 'garden_new', 'all', 'words')):.2f}"
    assert rows["single"][1] == "–"


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    report = make_report(load_config(write_lm_experiment(tmp_path)))
    assert report.lead == "Nothing has been measured yet."
    missing = {b.title for section in report.sections for b in section.blocks if isinstance(b, Missing)}
    assert {"The paper’s findings", "The tree induced", "Table 7. Perplexity in domain: induced"} <= missing


def test_page_and_markdown_have_the_same_figures(tmp_path: Path) -> None:
    (tmp_path / "words.md").write_text("The tree *grows*.\n", encoding="utf-8")
    experiment = restore("hierarchy", write_lm_experiment(tmp_path, evaluate={"reading": "words.md"}))
    step = report_step(experiment)
    run_steps([step])
    files = {path.name: path.read_text(encoding="utf-8") for path in step.output.iterdir() if path.suffix != ".json"}
    assert {"tree-manual.svg", "tree-induced.svg", "clusters-induced.svg", "unseen-induced.svg"} <= files.keys()
    assert "The tree *grows*." in files[MARKDOWN_FILE]
    average = read_records(step.output / RECORDS_FILE).mean("multi", loss("own"), *PLACES)
    assert average is not None
    for text in (files[PAGE_FILE], files[MARKDOWN_FILE]):
        assert re.search(rf"\b{re.escape(f'{math.exp(average):.2f}')}\b", text)
        assert "lower in 0 of 4 domains" in text
    assert report_step(experiment).options == step.options


def test_a_new_result_makes_the_report_anew(experiment: HierarchyExperiment) -> None:
    before = report_step(experiment)
    (experiment.work_dir / "paths/induced/votes.json").unlink()
    assert report_step(experiment).options != before.options


def test_a_missing_reading_is_named(tmp_path: Path) -> None:
    config = load_config(write_lm_experiment(tmp_path, evaluate={"reading": "words.md"}))
    with pytest.raises(InputError, match=r"evaluate: reading: no file .*words.md"):
        report_step(config)


def test_a_block_without_tokens_behind_the_first_has_no_figure() -> None:
    counts = {"tokens": 2, "words": 1, "tokens_after": {"8": 0}}
    found = {"nats": {"a": {"own": 1.0}}, "nats_after": {"a": {"own": {"8": 0.0}}}, "sets": {"a": counts}}
    records = Records(list(records_of_run("s", "s", {**found, "adapters": "tree", "cost": {}})))
    assert records.mean("s", loss("own"), "a") == 0.5
    assert records.mean("s", loss("own", WORD), "a") == 1.0
    assert records.mean("s", loss("own", behind(8)), "a") is None
