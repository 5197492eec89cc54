from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Report
from fairseq_ext.report.records import (
    RECORDS_FILE,
    Measured,
    Record,
    Records,
    read_records,
    results_by_name,
    write_records,
)
from fairseq_ext.report.writing import write_report

LINE = '{"system": "mix", "run": "mix", "domain": "law", "metric": "chrF", "value": 41.5, "source": "s.json"}\n'


def records(**values: dict[str, list[float]]) -> Records:
    """By system and domain the values of its runs."""
    return Records(
        [
            Record(system, f"{system}@{number}", domain, "chrF", value, "s.json")
            for system, domains in values.items()
            for domain, found in domains.items()
            for number, value in enumerate(found, start=1)
        ]
    )


FOUND = records(mix={"law": [40.0], "med": [10.0]}, gad={"law": [40.0, 42.0, 47.0], "med": [20.0, 24.0]})


def test_several_runs_give_mean_and_sample_deviation() -> None:
    assert FOUND.figure("gad", "chrF", "law") == Measured(43.0, pytest.approx(13**0.5), 3)
    assert FOUND.figure("mix", "chrF", "law") == Measured(40.0)
    assert FOUND.figure("mix", "BLEU", "law") is None
    assert FOUND.mean("gad", "chrF", "law") == 43.0
    assert FOUND.mean("gad", "chrF") is None


def test_averages_over_domains_are_of_the_runs_that_have_all() -> None:
    assert FOUND.by_run("gad", "chrF", "law", "med") == {"gad@1": 30.0, "gad@2": 33.0}
    assert FOUND.mean("mix", "chrF", "law", "med") == 25.0
    assert FOUND.figure("gad", "chrF", "law", "sport") is None


def test_columns_are_of_systems_or_of_domains() -> None:
    assert FOUND.of_systems("chrF", "law")("mix") == Measured(40.0)
    assert FOUND.of_systems("chrF", "law", "med")("mix") == Measured(25.0)
    assert FOUND.of_domains("chrF", "mix")("med") == Measured(10.0)


def test_files_keep_every_digit_and_know_no_order(tmp_path: Path) -> None:
    found = Records([*FOUND, Record("", "", "law ü\u2028\n", "sentences", 0.1 + 0.2, "a \\ b")])
    write_records(tmp_path / "one", found)
    write_records(tmp_path / "other", reversed(found.all))
    assert sorted(read_records(tmp_path / "one")) == sorted(found)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize(
    "line", ["{", "[]", "1", LINE[:-3] + "}", LINE.replace("41.5", '"41.5"'), LINE.replace('"law"', "null")]
)
def test_what_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(LINE + line, encoding="utf-8")
    with pytest.raises(InputError, match=r"records\.jsonl, line 2: holds no record \(.*\); make the report again"):
        read_records(path)


def test_a_report_leaves_its_records_beside_it(tmp_path: Path) -> None:
    write_report(tmp_path, Report("Title", "", [], [], records=FOUND))
    assert read_records(tmp_path / RECORDS_FILE).mean("gad", "chrF", "law") == 43.0


def test_results_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/x.json").write_text('{"c": 1}', encoding="utf-8")
    assert results_by_name(tmp_path, "{}/x.json", ["a", "b"]) == {"b": {"c": 1}}
