"""The report of a tiny real run: its records to the last digit, and one rendered page."""

from __future__ import annotations

import json
import re

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.recipes.topics.config import Topics
from fairseq_ext.recipes.topics.measurement import BASE_TEXT, PERPLEXITY, TOPIC_0_PERPLEXITY, coherence
from fairseq_ext.recipes.topics.report import page, report
from fairseq_ext.report.measurements import Records, read_records
from tests.recipes.topics.small_experiment import SYSTEMS, load, write_topic_experiment
from tests.recorded import restore


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Topics:
    found: Topics = restore("topics", write_topic_experiment(tmp_path_factory.mktemp("topics")))
    run_steps([report(found)])
    return found


@pytest.fixture(scope="module")
def records(experiment: Topics) -> Records:
    return read_records(experiment.work_dir / "report/records.jsonl")


def test_records_are_those_that_were_measured(records: Records) -> None:
    assert {key: records.by_run(*key)[key[0]] for key in GOLDEN} == GOLDEN
    assert {each.n for each in records.of("steered", PERPLEXITY, "garden_ask")} == {123}
    assert len(records.all) == 114


def test_the_report_has_the_papers_tables(experiment: Topics) -> None:
    folder = experiment.work_dir / "report"
    text, html = ((folder / name).read_text(encoding="utf-8") for name in ("report.md", "report.html"))
    assert re.findall(r"^## .*", text, re.MULTILINE) == ["## Comparison", "## garden\\_ask", "## garden\\_do"]
    tables = re.findall(r"^### (.*): garden\\_ask", text, re.MULTILINE)
    assert tables == ["Table 3. Systems", "Table 2. Coherence", "Use of topics", "Texts"]
    assert "\n| steered | 15.56 | 28.89 | 12.05 | 9.80 | 66.7 |" in text
    assert "\n| LDA, 2 topics | −1.01 | −1.11 | – | – |" in text
    assert "| steered | tuned | perplexity | garden\\_ask | −0.06 | – | not tested | 123 |" in text
    assert html.count("<table>") == text.count("\n| -- |") == 9
    assert "<h1>work</h1>" in html


def test_topics_and_texts_are_shown(experiment: Topics) -> None:
    work = experiment.work_dir
    text = (work / "report/report.md").read_text(encoding="utf-8")
    topic = json.loads((work / "topics/steered/topics.json").read_text())["topics"][2]
    row = f"{100 * topic['share']:.1f} | {', '.join(topic['used'])} | {', '.join(topic['near'])} | {topic['written']}"
    assert f"| 2 | {row} |" in text
    samples = json.loads((work / "topics/base/samples.json").read_text())["garden_ask"]
    # Of five prompts, every second.
    assert [f"**{each['text']} …**" in text for each in samples] == [True, False, True, False, False]
    assert f"* *as it was*: {samples[2]['reference']}\n* *base*: {samples[2]['written']}" in text


def test_the_file_chooses_other_baselines(experiment: Topics, records: Records) -> None:
    compared = page(experiment.model_copy(update={"compare": {"tuned": ["base"]}}), records).comparisons
    assert [(each.system, each.baseline, each.domain) for each in compared] == [
        ("tuned", "base", "garden_ask"), ("tuned", "base", BASE_TEXT),
    ]  # fmt: skip


def test_nothing_measured_is_no_error(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = load(write_topic_experiment(tmp_path_factory.mktemp("empty")))
    assert page(config, Records()).markdown().count("Not measured yet.") == 6
