"""Pages of results are what their records say."""

import importlib
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.metrics.comparison import Comparison
from fairseq_ext.experiments.metrics.records import Record, Records

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
PAGES = [ROOT / "docs/choosing.md", *sorted(path.with_suffix(".md") for path in RESULTS.glob("*.jsonl"))]
TEXT = "# T\n\n<!-- table {title: Scores, metric: chrF, digits: 1} -->\n<!-- end -->\n\nText.\n"


@pytest.fixture(scope="module")
def script() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        return importlib.import_module("render_results")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_is_what_its_records_say(page: Path, script: Any) -> None:
    files = script.render(page)
    text = page.read_text(encoding="utf-8")
    assert files[page.name] == text
    figures = {path.name for path in page.parent.glob(f"{page.stem}-*.svg")}
    assert figures >= files.keys() - {page.name}
    assert all(f"({figure})" in text for figure in figures)


def test_records_of_a_report_become_a_table_of_means(script: Any, tmp_path: Path) -> None:
    values = {"a@1": 30.0, "a@2": 31.0, "b@1": 29.5}
    records = [Record(system=run[0], run=run, metric="chrF", value=value) for run, value in values.items()]
    script.write_results(tmp_path / "p.jsonl", script.summarise(Records(records)))
    (tmp_path / "p.md").write_text(TEXT, encoding="utf-8")
    once = script.render(tmp_path / "p.md")["p.md"]
    assert f"| a | 30.5 ± {statistics.stdev([30, 31]):.1f} |\n| b | 29.5 |\n" in once
    assert once.endswith("Text.\n")
    (tmp_path / "p.md").write_text(once, encoding="utf-8")
    assert script.render(tmp_path / "p.md")["p.md"] == once


def test_measurements_of_domains_have_a_row_for_each(script: Any, tmp_path: Path) -> None:
    records = [
        Record(metric="distance", domain="law", value=1.5, dims={"to": "med"}),
        Record(metric="classified", domain="law", value=7, dims={"class": "med", "split": "test"}),
        Record(metric="F1", value=90.0),
    ]
    script.write_results(tmp_path / "p.jsonl", script.summarise(Records(records)))
    found = script.read_results(tmp_path / "p.jsonl")
    assert [(each.system, each.metric, each.domain) for each in found] == [
        ("law", "distance", "med"),
        ("law", "classified", "med, test"),
        (script.EVERY, "F1", ""),
    ]


def test_comparisons_of_a_report_become_marks_and_differences(script: Any) -> None:
    records = [Record(system=name, metric="chrF", domain="law", value=value) for name, value in [("a", 30), ("b", 29)]]
    better = Comparison("a", "b", "chrF", "law", 1.0, 0.5, 1.5, 0.01)
    unclear = Comparison("b", "c", "chrF", "law", 0.1, -0.5, 0.7, 0.6)
    found = script.summarise(Records(records), [better, unclear], "b")
    assert [each.mark for each in found] == ["▲", "", "", ""]
    assert found[2].written(2) == "+1.00 (+0.50 to +1.50)"
    assert (found[3].system, found[3].metric) == ("b", "chrF over c")
    assert script.mark(replace(better, metric="perplexity")) == "▼"
    assert script.mark(unclear) == ""


@pytest.mark.parametrize(
    ("text", "line", "place"),
    [
        (TEXT.replace("chrF", "BLEU"), '{"system": "a", "metric": "chrF", "value": 1}', "BLEU"),
        (TEXT.replace("metric", "metrik"), '{"system": "a", "metric": "chrF", "value": 1}', "p.md"),
        (TEXT, "[", "p.jsonl"),
    ],
)
def test_what_is_wrong_is_named(text: str, line: str, place: str, script: Any, tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text(text, encoding="utf-8")
    (tmp_path / "p.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=place):
        script.render(tmp_path / "p.md")
