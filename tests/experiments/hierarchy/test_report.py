"""The report of made-up figures says them, in the paper's tables, and what is missing."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.experiments.hierarchy.report import make_report, report_step
from fairseq_ext.experiments.hierarchy.results import WORD, LmDesign, behind, loss, read_results, records_of_run
from fairseq_ext.experiments.hierarchy.tables import in_domain_columns
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Missing, Picture, Table
from fairseq_ext.report.records import Records
from fairseq_ext.report.writing import MARKDOWN_FILE, PAGE_FILE
from tests.experiments.hierarchy import made_up as lm_made_up


@pytest.fixture
def blocks(tmp_path: Path) -> dict[str, Table | Missing | Picture]:
    """Everything with a title."""
    report = make_report(lm_made_up.make_experiment(tmp_path))
    return {block.title: block for section in report.sections for block in section.blocks if hasattr(block, "title")}  # type: ignore[misc,union-attr]


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
        "Figure 2. The tree induced",
        "Figure 4. Domains by cluster: induced",
        "Table 7. Perplexity in domain: induced",
        "Table 5. Perplexity on unseen domains: induced",
        "Choice by the first 16 tokens of every sequence: induced",
        "Table 6. Single adapters on unseen domains: single-induced",
        "Table 9. Chosen paths: induced",
        "Figure 1. The tree manual",
        "Table 2. Perplexity in domain: manual",
        "Table 3. Perplexity on unseen domains: manual",
        "Table 4. Different paths: manual",
        "Table 6. Single adapters on unseen domains: single-manual",
        "Table 9. Chosen paths: manual",
        "Perplexity per word, averaged over domains",
    ]


def test_perplexities_are_those_of_the_records(blocks: dict[str, object]) -> None:
    table = blocks["Table 2. Perplexity in domain: manual"]
    assert isinstance(table, Table)
    assert list(table.columns) == ["base", "manual", "multi-manual", "single-manual"]
    rows = rows_of(table)
    # Own figures of the made-up domains: 40, 43, 46 for the systems; the base knows art and chess, too.
    assert rows["biology"] == ["43.00", "28.00", "30.00", "32.00"]
    assert rows["average"][1] == f"{(28 * 30.1 * 32.2) ** (1 / 3):.2f}"
    assert best_of(table, "average") == ["manual"]


def test_seeds_are_averaged(tmp_path: Path) -> None:
    config = lm_made_up.make_experiment(tmp_path)
    design, results = LmDesign.of(config), read_results(config)
    setup = next(setup for setup in design.setups if setup.tree == "induced")
    column = next(c for c in in_domain_columns(setup, design) if c.heading == "induced")
    # The second run is 1.02 times the first.
    assert column.by_run(results, "art") == pytest.approx([28.0, 28.56])
    averages = column.by_run(results, "art", "biology")
    assert averages == pytest.approx([(28 * 30.1) ** 0.5, 1.02 * (28 * 30.1) ** 0.5])


def test_what_is_chosen_on_the_test_set_does_not_compete(blocks: dict[str, object]) -> None:
    table = blocks["Table 5. Perplexity on unseen domains: induced"]
    assert best_of(table, "film") == ["induced: 2 paths"]
    rows, columns = rows_of(table), list(table.columns)  # type: ignore[attr-defined]
    # The best of five single adapters, and the mean of all by their losses.
    assert rows["film"][columns.index("single-induced: best")] == "49.50"
    mean = statistics.geometric_mean(55 * (0.9 + 0.05 * place) for place in range(5))
    assert rows["film"][columns.index("single-induced: mean")] == f"{mean:.2f}"


def test_chosen_paths_name_what_they_were_trained_on(blocks: dict[str, object]) -> None:
    votes = rows_of(blocks["Table 9. Chosen paths: induced"])
    assert votes["film"] == ["c0 (60%)", "dance, opera", "c2 (40%)", "chess"]
    by_perplexity = rows_of(blocks["Table 9. Chosen paths: manual"])
    assert by_perplexity["film"] == ["opera (29.96)", "opera", "dance (33.12)", "dance"]
    assert "60 to 100 sequences" in " ".join(blocks["Table 9. Chosen paths: manual"].below.notes)  # type: ignore[attr-defined]


def test_findings_are_set_beside_the_papers(blocks: dict[str, object]) -> None:
    table = blocks["The paper’s findings"]
    assert isinstance(table, Table)
    by_tree = {heading: {row.name: row.cells for row in rows} for heading, rows in table.groups}
    rows = by_tree["manual: 3 domains"]
    paper, here = rows["In domain, the tree beats one adapter for all"]
    assert paper.text == "yes: 15.2, 15.9"
    assert here.text == "yes: 30.05, 32.20; lower in 3 of 3 domains"
    assert rows["Unseen: the tree over one path beats one adapter for all"][1].text.startswith("no: ")
    # Its Table 4, the best of four paths for each of seven domains.
    best = [17.6, 23.3, 20.7, 27.7, 29.4, 37.0, 25.5]
    assert rows["Unseen: two paths beat one"][0].text == f"yes: 23.8, {sum(best) / len(best):.1f}"


def test_other_paths_are_shown_by_leaf_and_family(blocks: dict[str, object]) -> None:
    table = blocks["Table 4. Different paths: manual"]
    assert isinstance(table, Table)
    assert list(table.columns) == ["dance", "opera", "biology", "stage: 2 paths"]


def test_words_count_too(blocks: dict[str, object]) -> None:
    rows = rows_of(blocks["Perplexity per word, averaged over domains"])
    per_token = float(rows_of(blocks["Table 2. Perplexity in domain: manual"])["average"][1])
    assert float(rows["manual"][0]) == pytest.approx(per_token ** (1000 / 800), rel=1e-3)


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    report = make_report(lm_made_up.make_file(tmp_path))
    assert report.lead == "Nothing has been measured yet."
    missing = {b.title for section in report.sections for b in section.blocks if isinstance(b, Missing)}
    assert {"The paper’s findings", "The tree induced", "Table 7. Perplexity in domain: induced"} <= missing


def test_page_and_markdown_have_the_same_figures(tmp_path: Path) -> None:
    (tmp_path / "words.md").write_text("The tree *grows*.\n", encoding="utf-8")
    config = lm_made_up.make_experiment(tmp_path, reading="words.md")
    step = report_step(config)
    run_steps([step])
    files = {path.name: path.read_text(encoding="utf-8") for path in step.output.iterdir() if path.suffix != ".json"}
    assert {"tree-manual.svg", "tree-induced.svg", "clusters-induced.svg", "unseen-induced.svg"} <= files.keys()
    assert "The tree *grows*." in files[MARKDOWN_FILE]
    for text in (files[PAGE_FILE], files[MARKDOWN_FILE]):
        assert re.search(r"\b28\.28\b", text)
        assert "lower in 3 of 3 domains" in text
    assert report_step(config).options == step.options


def test_a_new_record_makes_the_report_anew(tmp_path: Path) -> None:
    config = lm_made_up.make_experiment(tmp_path)
    before = report_step(config)
    (config.work_dir / "paths/induced/votes.json").unlink()
    assert report_step(config).options != before.options


def test_a_missing_reading_is_named(tmp_path: Path) -> None:
    config = lm_made_up.make_file(tmp_path, reading="words.md")
    with pytest.raises(InputError, match=r"evaluate: reading: no file .*words.md"):
        report_step(config)


def test_a_block_without_tokens_behind_the_first_has_no_figure() -> None:
    counts = {"tokens": 2, "words": 1, "tokens_after": {"8": 0}}
    found = {"nats": {"a": {"own": 1.0}}, "nats_after": {"a": {"own": {"8": 0.0}}}, "sets": {"a": counts}}
    records = Records(list(records_of_run("s", "s", {**found, "adapters": "tree", "cost": {}})))
    assert records.mean("s", loss("own"), "a") == 0.5
    assert records.mean("s", loss("own", WORD), "a") == 1.0
    assert records.mean("s", loss("own", behind(8)), "a") is None
