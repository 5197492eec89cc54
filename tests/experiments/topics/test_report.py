"""The report of made-up figures on topic models says them, what follows from them, and what is missing."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.experiments.topics.config import load_config
from fairseq_ext.experiments.topics.report import make_report, report_step
from fairseq_ext.experiments.topics.results import TopicDesign
from fairseq_ext.experiments.topics.tables import tdm_pairs
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Examples, Missing, Picture, Table
from fairseq_ext.report.records import RECORDS_FILE
from fairseq_ext.report.writing import MARKDOWN_FILE, PAGE_FILE
from tests.experiments.topics import made_up as topic_made_up

Blocks = dict[str, object]


@pytest.fixture
def blocks(tmp_path: Path) -> Blocks:
    """Everything with a title."""
    return blocks_of(make_report(topic_made_up.make_experiment(tmp_path)))


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


def test_systems_are_compared_by_domain(blocks: Blocks) -> None:
    table = blocks["Table 3. Systems: films"]
    rows = cells_of(table)
    assert list(rows) == ["base", "tuned-films", "output-films", "many-films", "many-free-films"]
    assert rows["base"]["Perplexity"] == "90.00"
    assert rows["base"]["Topic 0 alone"] == "–"
    # Two seeds, of which the second is 1.02 times the first.
    assert rows["many-films"]["Perplexity"] == "55.55"
    assert rows["many-free-films"]["Topic 0 alone"] == "61.00"
    # Of the mean loss: half and twice as probable cancel.
    assert rows["tuned-films"]["On the base’s text"] == "48.00"
    assert best_of(table, "Perplexity") == ["many-films"]
    assert best_of(table, "On the base’s text") == ["base"]
    notes = " ".join(table.below.notes)  # type: ignore[attr-defined]
    assert "50 test lines of 1,000 tokens" in notes
    assert "12 tokens beyond the first 64 of a line are left out" in notes
    assert "trained for 300 updates" in notes


def test_coherence_is_set_beside_other_models(blocks: Blocks) -> None:
    rows = cells_of(blocks["Table 2. Coherence: shops"])
    assert rows["many-shops: words by use"]["N = 5"] == "−2.30"
    assert rows["LDA, 10 topics"] == {"N = 5": "−3.00", "N = 10": "−4.00"}
    assert best_of(blocks["Table 2. Coherence: shops"], "N = 5") == [
        "many-shops: words by use", "many-shops: nearest words",
    ]  # fmt: skip


def test_claims_are_answered_by_figures(blocks: Blocks) -> None:
    table = blocks["Claims"]
    assert isinstance(table, Table)
    groups = {heading: {row.name: [cell.text for cell in row.cells] for row in rows} for heading, rows in table.groups}
    beats = groups["Topics beat fine-tuning at equal steps"]
    assert beats["many-free-films, tuned-films"] == ["held", "56.00, 60.00 (−6.7%)"]
    assert list(groups["Topics beat a trained output embedding without topics"])[0] == "many-films, output-films"
    helps = groups["Topic distribution modelling helps"]["many-films, many-free-films"]
    assert helps[0] == "no difference"  # of less than 1%
    assert helps[1] == "55.55, 56.00 (−0.8%); coherence by use −3.30, −3.40; dead topics 0, 1"
    assert groups["Fine-tuning forgets"]["tuned-films"] == ["held", "48.00, base 40.00 (+20.0%)"]
    keeps = groups["Topics do not forget"]
    assert keeps["many-films"] == ["held", "40.20, base 40.00 (+0.5%)"]
    assert keeps["many-free-films"] == ["did not hold", "43.00, base 40.00 (+7.5%)"]
    assert groups["Topics forget less than fine-tuning"]["many-films, tuned-films"][0] == "held"


def test_unequal_training_is_not_compared(tmp_path: Path) -> None:
    path = topic_made_up.make_experiment(tmp_path).path
    content = topic_made_up.experiment_file(tmp_path)
    content["train"]["systems"]["tuned-films"]["max-update"] = 200
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    config = load_config(path)
    table = blocks_of(make_report(config))["Claims"]
    assert isinstance(table, Table)
    row = next(row for row in table.groups[0][1] if row.name == "many-free-films, tuned-films")
    assert [cell.text for cell in row.cells] == ["not comparable", "300 and 200 updates"]


def test_ablation_has_pairs_that_differ_in_one_thing(tmp_path: Path) -> None:
    design = TopicDesign.of(topic_made_up.make_file(tmp_path))
    assert tdm_pairs(design, "films") == [("many-films", "many-free-films")]


def test_topics_and_texts_are_shown(blocks: Blocks) -> None:
    words = cells_of(blocks["Topics: many-films@1"])
    assert list(words) == ["0", "1", "2", "3"]
    assert words["2"] == {"Share, %": "20.0", "Words by use": "word2a, word2b, word2c",
                          "Nearest words": "word2a, word2b, word2c"}  # fmt: skip
    texts = blocks["Texts: films"]
    assert isinstance(texts, Examples)
    assert [example.title for example in texts.examples] == ["start 0 …", "start 2 …"]
    assert texts.examples[1].lines[:2] == [("as it was", "rest 2"), ("base", "base 2")]
    forced = blocks["One topic at a time: many-films@1"]
    assert isinstance(forced, Examples)
    assert forced.examples[0].lines[2] == ("1: word1a, word1b, word1c", "by 1")


def test_pictures_show_gains_and_use(blocks: Blocks) -> None:
    gains, usage = blocks["Gained and forgotten"], blocks["Use of topics by run"]
    assert isinstance(gains, Picture)
    assert isinstance(usage, Picture)
    titles = [shape.text for shape in gains.shapes]
    assert f"tuned-films, its own text: −{math.log2(90 / 60):.2f} bits" in titles
    assert f"tuned-films, the base’s text: +{math.log2(48 / 40):.2f} bits" in titles
    assert "many-films@1, 2: 20" in [shape.text for shape in usage.shapes]


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    report = make_report(topic_made_up.make_file(tmp_path))
    assert report.lead == "Nothing has been measured yet."
    missing = {title for title, block in blocks_of(report).items() if isinstance(block, Missing)}
    assert {"Claims", "Table 3. Systems: films", "Table 2. Coherence: films", "Texts: films"} <= missing


def test_page_and_markdown_are_written(tmp_path: Path) -> None:
    (tmp_path / "words.md").write_text("Topics *steer*.\n", encoding="utf-8")
    config = topic_made_up.make_experiment(tmp_path, reading="words.md")
    step = report_step(config)
    run_steps([step])
    files = {path.name: path.read_text(encoding="utf-8") for path in step.output.iterdir() if path.suffix != ".json"}
    assert files.keys() == {PAGE_FILE, MARKDOWN_FILE, RECORDS_FILE, "gains.svg", "usage.svg"}
    assert "Topics *steer*." in files[MARKDOWN_FILE]
    for text in (files[PAGE_FILE], files[MARKDOWN_FILE]):
        assert "55.55" in text
        assert "many-films has the lowest perplexity" in text
    assert report_step(config).options == step.options
    (config.work_dir / "topics/base/samples.json").unlink()
    assert report_step(config).options != step.options


def test_a_missing_reading_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"topics: reading: no file .*words.md"):
        report_step(topic_made_up.make_file(tmp_path, reading="words.md"))
