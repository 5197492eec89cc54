"""The report of a tiny real run with topic models says its figures, what follows from them, and what is missing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.experiments.topics.claims import claims
from fairseq_ext.experiments.topics.config import TopicExperiment, load_config
from fairseq_ext.experiments.topics.report import make_report, report_step
from fairseq_ext.experiments.topics.results import BASE_TEXT, TopicDesign, TopicResults, coherence
from fairseq_ext.experiments.topics.tables import tdm_pairs
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Examples, Missing, Picture, Table
from fairseq_ext.report.records import RECORDS_FILE, Record, Records
from fairseq_ext.report.writing import MARKDOWN_FILE, PAGE_FILE
from tests.experiments.topics.small_topic_experiment import SYSTEMS, TOPICS, write_topic_experiment
from tests.recorded import restore

Blocks = dict[str, object]


@pytest.fixture
def experiment(tmp_path: Path) -> TopicExperiment:
    return restore("topics", write_topic_experiment(tmp_path))


@pytest.fixture
def blocks(experiment: TopicExperiment) -> Blocks:
    """Everything with a title."""
    return blocks_of(make_report(experiment))


def result_of(experiment: TopicExperiment, run: str, name: str = "topics") -> dict[str, Any]:
    """What the step of a run left."""
    path = experiment.work_dir / "topics" / run / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def loss_of(text: dict[str, Any], over: str = "all") -> float:
    loss: float = text["nats"][over] / text["tokens"]
    return loss


def blocks_of(report: object) -> Blocks:
    found = [block for section in report.sections for block in section.blocks]  # type: ignore[attr-defined]
    return {block.title: block for block in found if hasattr(block, "title")}


def cells_of(block: object) -> dict[str, dict[str, str]]:
    """Text by row and column."""
    assert isinstance(block, Table)
    return {
        row.name: {column: cell.text for column, cell in zip(block.columns, row.cells, strict=True)}
        for _, rows in block.groups
        for row in rows
    }


def best_of(block: object, column: str) -> list[str]:
    assert isinstance(block, Table)
    place = list(block.columns).index(column)
    return [row.name for _, rows in block.groups for row in rows if row.cells[place].is_best]


def test_systems_are_compared_by_domain(experiment: TopicExperiment, blocks: Blocks) -> None:
    table = blocks["Table 3. Systems: garden_ask"]
    rows = cells_of(table)
    assert list(rows) == ["base", "tuned", "steered", "steered-no-tdm"]
    for name, row in rows.items():
        found = result_of(experiment, name)
        own, base = found["texts"]["garden_ask"], found["base"].values()
        assert row["Perplexity"] == f"{math.exp(loss_of(own)):.2f}"
        assert row["On the base’s text"] == f"{math.exp(fmean(map(loss_of, base))):.2f}"
        alone = f"{math.exp(loss_of(own, '0')):.2f}" if name.startswith("steered") else "–"
        assert row["Topic 0 alone"] == alone
        assert row["Dist-2"] == f"{own['metrics']['Dist-2']:.1f}"
    # Single runs show no winner.
    assert best_of(table, "Perplexity") == []
    notes = " ".join(table.below.notes)  # type: ignore[attr-defined]
    assert f"20 test lines of {own['tokens']:,} tokens" in notes
    assert "trained for 6 updates" in notes


def test_coherence_is_set_beside_other_models(experiment: TopicExperiment, blocks: Blocks) -> None:
    rows = cells_of(blocks["Table 2. Coherence: garden_ask"])
    used = result_of(experiment, "steered")["topics"]["coherence"]["used"]
    assert rows["steered: words by use"] == {f"N = {n}": f"{used[str(n)]:.2f}".replace("-", "−") for n in (2, 3)}
    assert list(rows)[-2:] == ["LDA, 2 topics", "NMF, 2 topics"]


@pytest.mark.parametrize(
    ("steered", "free", "verdicts"),
    [
        ((55.0, 40.2), (56.0, 43.0), ["held", "held", "held", "held"]),
        ((60.5, 40.2), (60.4, 41.0), ["no difference", "no difference", "held", "held"]),
        ((62.0, 50.0), (55.0, 40.0), ["did not hold", "did not hold", "did not hold", "did not hold"]),
    ],
)
def test_claims_are_answered_by_figures(
    tmp_path: Path, steered: tuple[float, float], free: tuple[float, float], verdicts: list[str]
) -> None:
    found = {"base": (90.0, 40.0), "tuned": (60.0, 48.0), "output": (99.0, 44.0), "steered": steered}
    found["steered-no-tdm"] = free
    records = [
        Record(name, name, domain, "perplexity", value, "")
        for name, values in found.items()
        for domain, value in zip(("garden_ask", BASE_TEXT), values, strict=True)
    ]
    for name, value in {"steered": -3.3, "steered-no-tdm": -3.4}.items():
        records.append(Record(name, name, "", coherence("used", 10), value, ""))
        records.append(Record(name, name, "", "dead topics", 1.0, ""))
    systems = {**SYSTEMS, "output": {**SYSTEMS["output"], "train-domains": "garden_ask"}}
    design = TopicDesign.of(load_config(write_topic_experiment(tmp_path, systems)))
    table = claims(TopicResults(Records(records)), design)
    assert isinstance(table, Table)
    groups = {heading: {row.name: [cell.text for cell in row.cells] for row in rows} for heading, rows in table.groups}
    assert [
        groups["Topics beat fine-tuning at equal steps"]["steered, tuned"][0],
        groups["Topic distribution modelling helps"]["steered, steered-no-tdm"][0],
        groups["Topics do not forget"]["steered"][0],
        groups["Topics forget less than fine-tuning"]["steered, tuned"][0],
    ] == verdicts
    assert groups["Fine-tuning forgets"]["tuned"] == ["held", "48.00, base 40.00 (+20.0%)"]
    assert groups["Topic distribution modelling helps"]["steered, steered-no-tdm"][1].endswith(
        "; coherence by use −3.30, −3.40; dead topics 1, 1"
    )
    assert groups["Topics beat a trained output embedding without topics"]["steered, output"][0] == "held"


@pytest.mark.parametrize(
    ("steered", "verdict"),
    [
        ((59.9, 60.0, 60.1), "no difference"),
        ((57.0, 58.5, 61.5), "no difference"),  # nearly 2 % below, by which single runs would be told apart
        ((59.6, 59.7, 59.65), "held"),  # half a percent below
        ((60.5, 60.6, 60.4), "did not hold"),
    ],
)
def test_claims_of_several_runs_are_answered_by_their_spread(
    tmp_path: Path, steered: tuple[float, ...], verdict: str
) -> None:
    records = [
        Record(name, f"{name}@{seed}", "garden_ask", "perplexity", value, "")
        for name, values in {"tuned": (60.0, 60.05, 59.95), "steered": steered}.items()
        for seed, value in enumerate(values)
    ]
    design = TopicDesign.of(load_config(write_topic_experiment(tmp_path)))
    table = claims(TopicResults(Records(records)), design)
    assert isinstance(table, Table)
    row = next(row for row in table.groups[0][1] if row.name == "steered, tuned")
    assert row.cells[0].text == verdict


def test_unequal_training_is_not_compared(tmp_path: Path) -> None:
    systems = {**SYSTEMS, "tuned": {**SYSTEMS["tuned"], "max-update": 4}}
    table = blocks_of(make_report(restore("topics", write_topic_experiment(tmp_path, systems))))["Claims"]
    assert isinstance(table, Table)
    row = next(row for row in table.groups[0][1] if row.name == "steered, tuned")
    assert [cell.text for cell in row.cells] == ["not comparable", "6 and 4 updates"]


def test_ablation_has_pairs_that_differ_in_one_thing(tmp_path: Path) -> None:
    design = TopicDesign.of(load_config(write_topic_experiment(tmp_path)))
    assert tdm_pairs(design, "garden_ask") == [("steered", "steered-no-tdm")]


def test_topics_and_texts_are_shown(experiment: TopicExperiment, blocks: Blocks) -> None:
    words, topics = cells_of(blocks["Topics: steered"]), result_of(experiment, "steered")["topics"]
    assert list(words) == ["0", "1", "2", "3"]
    assert words["2"] == {
        "Share, %": f"{100 * topics['usage'][2]:.1f}",
        "Words by use": ", ".join(topics["words"]["used"][2]),
        "Nearest words": ", ".join(topics["words"]["near"][2]),
    }
    texts = blocks["Texts: garden_ask"]
    assert isinstance(texts, Examples)
    # Of five prompts, every second.
    prompts = result_of(experiment, "base", "samples")["garden_ask"]
    assert [example.title for example in texts.examples] == [f"{prompts[n]['text']} …" for n in (0, 2)]
    assert texts.examples[1].lines[:2] == [("as it was", prompts[2]["reference"]), ("base", prompts[2]["written"])]
    forced = blocks["One topic at a time: steered"]
    assert isinstance(forced, Examples)
    name = f"1: {', '.join(topics['words']['used'][1][:3])}"
    assert forced.examples[0].lines[2] == (name, result_of(experiment, "steered", "forced")["written"][1])


def test_pictures_show_gains_and_use(experiment: TopicExperiment, blocks: Blocks) -> None:
    gains, usage = blocks["Gained and forgotten"], blocks["Use of topics by run"]
    assert isinstance(gains, Picture)
    assert isinstance(usage, Picture)
    before, after = (loss_of(result_of(experiment, run)["texts"]["garden_ask"]) for run in ("base", "tuned"))
    change = f"{(after - before) / math.log(2):+.2f}".replace("-", "−")
    assert f"tuned, its own text: {change} bits" in [shape.text for shape in gains.shapes]
    share = result_of(experiment, "steered")["topics"]["usage"][0]
    assert f"steered, 0: {100 * share:.0f}" in [shape.text for shape in usage.shapes]


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    report = make_report(load_config(write_topic_experiment(tmp_path)))
    assert report.lead == "Nothing has been measured yet."
    missing = {title for title, block in blocks_of(report).items() if isinstance(block, Missing)}
    titles = ("Table 3. Systems", "Table 2. Coherence", "Texts")
    assert {"Claims", *(f"{title}: garden_ask" for title in titles)} <= missing


def test_page_and_markdown_are_written(tmp_path: Path) -> None:
    (tmp_path / "words.md").write_text("Topics *steer*.\n", encoding="utf-8")
    topics = {**TOPICS, "reading": "words.md"}
    experiment = restore("topics", write_topic_experiment(tmp_path, topics=topics))
    step = report_step(experiment)
    run_steps([step])
    files = {path.name: path.read_text(encoding="utf-8") for path in step.output.iterdir() if path.suffix != ".json"}
    assert files.keys() == {PAGE_FILE, MARKDOWN_FILE, RECORDS_FILE, "gains.svg", "usage.svg"}
    assert "Topics *steer*." in files[MARKDOWN_FILE]
    for text in (files[PAGE_FILE], files[MARKDOWN_FILE]):
        assert f"{math.exp(loss_of(result_of(experiment, 'steered')['texts']['garden_ask'])):.2f}" in text
        assert "Perplexity on garden" in text
    assert report_step(experiment).options == step.options
    (experiment.work_dir / "topics/base/samples.json").unlink()
    assert report_step(experiment).options != step.options


def test_a_missing_reading_is_named(tmp_path: Path) -> None:
    path = write_topic_experiment(tmp_path, topics={"reading": "words.md"})
    with pytest.raises(InputError, match=r"topics: reading: no file .*words.md"):
        report_step(load_config(path))
