"""The report of a tiny real run says its figures, beside the paper's, and what is missing."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from statistics import fmean, stdev

import pytest
from fairseq_ext.experiments.training_log import TrainingLog
from fairseq_ext.experiments.word_lm.config import WordLmExperiment, load_config
from fairseq_ext.experiments.word_lm.report import draw_curves, make_report, report_step
from fairseq_ext.experiments.word_lm.results import WordLmDesign, WordLmResults
from fairseq_ext.experiments.word_lm.tables import PAPER, findings
from fairseq_ext.experiments.word_lm.train import KNESER_NEY

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Missing, Picture, Table
from fairseq_ext.report.records import RECORDS_FILE, Record, Records, read_records
from fairseq_ext.report.writing import MARKDOWN_FILE, PAGE_FILE
from tests.recipes.recurrent.small_experiment import write_file, write_word_lm_experiment
from tests.recorded import restore


@pytest.fixture
def experiment(tmp_path: Path) -> WordLmExperiment:
    return restore("word_lm", write_word_lm_experiment(tmp_path))


@pytest.fixture
def blocks(experiment: WordLmExperiment) -> dict[str, Table | Missing | Picture]:
    """Everything with a title."""
    report = make_report(experiment)
    return {block.title: block for section in report.sections for block in section.blocks if hasattr(block, "title")}  # type: ignore[misc,union-attr]


def perplexities(experiment: WordLmExperiment, split: str, *runs: str) -> list[float]:
    """Of runs, as their files have it."""
    files = [experiment.work_dir / "perplexity" / run / "perplexity.json" for run in runs]
    sets = [json.loads(path.read_text(encoding="utf-8"))["sets"][split] for path in files]
    return [math.exp(found["nats"] / found["tokens"]) for found in sets]


def rows_of(block: object) -> dict[str, list[str]]:
    assert isinstance(block, Table)
    return {row.name: [f"{cell.text}{cell.note}" for cell in row.cells] for _, rows in block.groups for row in rows}


def test_perplexities_are_those_that_were_measured_beside_the_papers(
    experiment: WordLmExperiment, blocks: dict[str, object]
) -> None:
    table = blocks["Table 2. Perplexity"]
    assert isinstance(table, Table)
    assert [heading for heading, _ in table.groups] == ["Baselines", "Gated adaptation"]
    rows, splits = rows_of(table), ("valid", "test")
    for name, paper in {"kneser-ney": ["148.0", "141.2"], "fixed": ["121.9", "117.7"]}.items():
        assert rows[name][:4] == [f"{perplexities(experiment, split, name)[0]:.2f}" for split in splits] + paper
    assert rows["kneser-ney"][5:] == ["–", "–", "–"]
    seeds = [perplexities(experiment, split, "dagru@1", "dagru@2") for split in splits]
    assert rows["dagru"][:2] == [f"{fmean(values):.2f}±{stdev(values):.2f}" for values in seeds]
    assert re.fullmatch(r"\d, \d", rows["dagru"][5])
    assert rows["dagru"][6] == "3"
    best = [row.name for _, rows in table.groups for row in rows if row.cells[1].is_best]
    # Single runs among them show no winner.
    assert best == []


def test_findings_are_set_beside_the_papers(experiment: WordLmExperiment, blocks: dict[str, object]) -> None:
    rows = rows_of(blocks["The paper’s findings"])
    [standard, ngrams] = perplexities(experiment, "test", "standard", "kneser-ney")
    verdict = "yes" if standard < ngrams else "no"
    assert rows["A GRU beats the n-gram model"] == ["yes: 89.3, 141.2", f"{verdict}: {standard:.1f}, {ngrams:.1f}"]
    assert rows["Concatenating words beats the standard model"] == ["no: 91.4, 89.3", "not measured"]
    assert rows["DAGRU beats either of its gates alone"] == ["yes: 81.9, 86.8", "not measured"]


def test_a_finding_within_the_seeds_spread_is_not_shown() -> None:
    runs = {"standard": (121.0, 121.5, 120.5), "cvg": (117.5, 118.1, 117.8), "dagru": (116.1, 117.8, 116.9)}
    records = [
        Record(name, f"{name}@{seed}", "test", "perplexity", value, "")
        for name, values in runs.items()
        for seed, value in enumerate(values)
    ]
    design = WordLmDesign("gates", {"standard": "none", "cvg": "cvg", "dagru": "dagru"}, {})
    rows = rows_of(findings(WordLmResults(Records(records)), design))
    assert rows["DAGRU beats the standard model"][1] == "yes: 116.9, 121.0"
    assert rows["DAGRU beats either of its gates alone"][1] == "not shown: 116.9, 117.8"


def test_curves_stand_in_panels_with_the_standard_model() -> None:
    logs = {"standard": TrainingLog({1: 1000.0, 2: 130.0, 3: 110.0, 4: 120.0}, 60)}
    logs["wvs"] = TrainingLog({1: 1000.0, 2: 128.0, 3: 108.0, 4: 118.0}, 60)
    design = WordLmDesign("two", {"standard": "none", "wvs": "wvs"}, {name: [name] for name in logs})
    picture = draw_curves(WordLmResults(logs=logs), design)
    assert isinstance(picture, Picture)
    dots = [shape.text for shape in picture.shapes if shape.kind == "dot" and shape.text]
    # Three epochs each, as the first is too high; the standard model in both panels.
    assert len(dots) == 3 * (2 + 1)
    assert dots.count("standard, epoch 3: 110.0") == 2
    # Epochs are equally far apart.
    places = [shape.x for shape in picture.shapes if shape.kind == "dot" and shape.text.startswith("wvs, ")]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1])


def test_all_combinations_are_drawn() -> None:
    """Twelve systems, and ten colours: each panel has colours of its own, but for those of the standard models."""
    names = [name for name in PAPER if name != KNESER_NEY]
    design = WordLmDesign("all", {name: name for name in names}, {name: [name] for name in names})
    logs = {name: TrainingLog({1: 100.0 + place, 2: 90.0}, 60) for place, name in enumerate(names)}
    picture = draw_curves(WordLmResults(logs=logs), design)
    assert picture is not None
    assert not any("Not drawn" in note for note in picture.below.notes)
    styles: dict[str, set[str]] = {}
    for shape in picture.shapes:
        if shape.kind == "dot" and shape.text:
            styles.setdefault(shape.text.partition(",")[0], set()).add(shape.style)
    assert styles.keys() == set(names)
    assert all(len(style) == 1 for style in styles.values())
    assert len({*styles["none"], *styles["wvg"], *styles["cvg"], *styles["dagru"]}) == 4
    legends = [shape.text for shape in picture.shapes if shape.kind == "text" and shape.text in names]
    assert sorted(legends) == sorted(names)


def test_text_and_missing_words_are_told(experiment: WordLmExperiment, blocks: dict[str, object]) -> None:
    [row] = rows_of(blocks["Words and their general-domain vectors"]).values()
    assert row[:3] == ["6", "15", "5"]
    assert set(row[4].split(", ")) == {f"w{number}" for number in range(15, 20)}
    counts = json.loads((experiment.work_dir / "text/counts.json").read_text(encoding="utf-8"))["train"]
    assert rows_of(blocks["Table 1. The text"])["train"] == ["300", f"{counts['tokens']:,}", "0"]


def test_the_report_is_written_and_follows_what_was_measured(experiment: WordLmExperiment) -> None:
    run_steps([report_step(experiment)])
    report = experiment.work_dir / "report"
    text = (report / MARKDOWN_FILE).read_text(encoding="utf-8")
    assert "Perplexity on the test set: " in text
    assert "<svg" in (report / PAGE_FILE).read_text(encoding="utf-8")
    assert (report / "curves.svg").is_file()
    found = read_records(report / RECORDS_FILE)
    seeds = perplexities(experiment, "test", "dagru@1", "dagru@2")
    assert found.by_run("dagru", "perplexity", "test") == dict(zip(("dagru@1", "dagru@2"), seeds, strict=True))
    before = report_step(experiment).inputs
    (experiment.work_dir / "systems/fixed/train.log").unlink()
    assert len(report_step(experiment).inputs) == len(before) - 1


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    report = make_report(load_config(write_file(tmp_path)))
    assert report.lead == "Nothing has been measured yet."
    assert all(isinstance(block, Missing) for section in report.sections for block in section.blocks)


def test_a_reading_must_be_there(tmp_path: Path) -> None:
    path = write_file(tmp_path, evaluate={"reading": "reading.md"})
    with pytest.raises(InputError, match="evaluate: reading: no file"):
        report_step(load_config(path))
