"""The report of a tiny real run: its records to the last digit, and one rendered page."""

from __future__ import annotations

import json
import re

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.recipes.recurrent.config import Recurrent
from fairseq_ext.recipes.recurrent.report import GROUPS, PAPER, curves, page, report
from fairseq_ext.recipes.report import VALID_BY_EPOCH
from fairseq_ext.report.measurements import Record, Records, read_records
from tests.recipes.recurrent.small_experiment import write_word_lm_experiment
from tests.recorded import restore

# Perplexity by run and set.
GOLDEN = {
    ("dagru@1", "test"): 3.121930323153055,
    ("dagru@1", "valid"): 2.6192783206263988,
    ("dagru@2", "test"): 3.2542483334127486,
    ("dagru@2", "valid"): 2.5822326467906014,
    ("fixed", "test"): 5.436314723122715,
    ("fixed", "valid"): 3.851309716274739,
    ("kneser-ney", "test"): 2.611995316391127,
    ("kneser-ney", "valid"): 2.305923113818338,
    ("standard", "test"): 4.273966132744356,
    ("standard", "valid"): 3.1436689453481157,
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Recurrent:
    found: Recurrent = restore("recurrent", write_word_lm_experiment(tmp_path_factory.mktemp("words")))
    run_steps([report(found)])
    return found


def test_records_are_those_that_were_measured(experiment: Recurrent) -> None:
    records = read_records(experiment.work_dir / "report/records.jsonl")
    found = {(each.run, each.domain): each.value for each in records if each.metric == "perplexity"}
    assert found == GOLDEN
    assert {(each.run, each.seed, each.n) for each in records.of("dagru", "perplexity", "test")} == {
        ("dagru@1", 1, 176), ("dagru@2", 2, 176),
    }  # fmt: skip
    counts = json.loads((experiment.work_dir / "text/counts.json").read_text(encoding="utf-8"))
    assert records.by_run("", "tokens", "train") == {"": counts["train"]["tokens"]}


def test_the_report_has_the_papers_tables_and_figure(experiment: Recurrent) -> None:
    folder = experiment.work_dir / "report"
    text, html = ((folder / name).read_text(encoding="utf-8") for name in ("report.md", "report.html"))
    assert re.findall(r"^### (Table \d|Figure \d)", text, re.MULTILINE) == ["Table 2", "Figure 5", "Table 1"]
    [standard] = [line for line in text.splitlines() if line.startswith("| standard | none ")]
    assert "| 4.27 | 93.0 | 89.3 | 1,800 |" in standard
    assert "| fixed | standard | perplexity | test | +1.16 | – | not tested | 176 |" in text
    assert "<h1>work</h1>" in html
    assert html.count("<table>") == text.count("\n| :- |") == 4
    assert 'src="data:image/svg+xml;base64,' in html
    assert (folder / "curves.svg").read_text(encoding="utf-8").count("<svg") == 1


def test_nothing_measured_is_no_error(experiment: Recurrent) -> None:
    assert page(experiment, Records()).markdown().count("Not measured yet.") == 3
    assert curves(Records(), {"standard": "none"}) == []


def test_every_combination_of_the_paper_is_in_a_panel() -> None:
    assert {*PAPER} - {"kneser-ney"} == {name for members in GROUPS.values() for name in members}
    records = [
        Record(system=name, run=name, domain=str(epoch), metric=VALID_BY_EPOCH, value=value)
        for name in PAPER
        for epoch, value in ((1, 1000.0), (2, 100.0), (3, 90.0))
    ]
    [figure] = curves(Records(records), {name: name for name in PAPER if name != "kneser-ney"})
    # The standard model is in every panel; the first epoch is too high to be drawn.
    assert figure.svg.count(">none<") == len(GROUPS)
    assert "1000" not in figure.svg


def test_systems_are_compared_with_the_standard_model_or_as_the_file_says(experiment: Recurrent) -> None:
    values = {"standard": (121.0, 121.5, 120.5), "fixed": (117.5, 118.1, 117.8), "dagru": (116.1, 117.8, 116.9)}
    records = Records(
        [
            Record(system=name, run=f"{name}@{seed}", seed=seed, domain="test", metric="perplexity", value=value)
            for name, each in values.items()
            for seed, value in enumerate(each)
        ]
    )
    default = {(each.system, each.baseline): each for each in page(experiment, records).comparisons}
    assert default.keys() == {("fixed", "standard"), ("dagru", "standard")}
    p = default["dagru", "standard"].p
    assert p is not None
    assert p < 0.01
    compared = experiment.model_copy(update={"compare": {"dagru": ["fixed"]}})
    assert [(each.system, each.baseline) for each in page(compared, records).comparisons] == [("dagru", "fixed")]
