"""Records survive their file, and tables ask for means over runs and domains."""

import statistics
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.metrics.records import Mean, Record, Records, read_records, write_rows


def test_records_survive_their_file(tmp_path: Path) -> None:
    full = Record(system='a\u2028\n"ż', run="a@1", seed=1 << 40, domain="law", metric="chrF", value=0.1 + 0.2, n=3)
    dims = {"lr": 2e-3, "update": 200, "weights": "votes", "sentence-avg": True}
    records = [full, Record(metric="m", value=-1e-300), Record(metric="m", value=1.0, dims=dims)]
    write_rows(tmp_path / "records.jsonl", records)
    assert list(read_records(tmp_path / "records.jsonl")) == records


@pytest.mark.parametrize(
    "line",
    [
        '{"metric": "m", "value": true}',
        '{"metric": "m", "value": NaN}',
        '{"metric": "m", "value": 1, "source": "of an earlier version"}',
        '{"metric": "m", "value": 1, "dims": {"update": [200]}}',
    ],
)
def test_invalid_lines_are_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"metric": "m", "value": 1}\n' + line + "\n")
    with pytest.raises(InputError, match=f"^{path}, line 2: "):
        read_records(path)


def test_means_are_over_runs_that_were_measured_everywhere() -> None:
    values = {("a@1", "law"): 1.0, ("a@1", "med"): 3.0, ("a@2", "law"): 4.0, ("a@2", "med"): 6.0, ("a@3", "law"): 9.0}
    records = Records(
        [Record(system="a", run=run, domain=domain, metric="m", value=value) for (run, domain), value in values.items()]
    )
    assert records.by_run("a", "m", "law", "med") == {"a@1": 2.0, "a@2": 5.0}
    assert records.mean("a", "m", "law", "med") == Mean(3.5, statistics.stdev([2, 5]))
    assert records.mean("a", "m", "law") == Mean(14 / 3, statistics.stdev([1, 4, 9]))
    assert Mean.of([2.0]) == Mean(2.0)
    assert records.mean("b", "m", "law") is None
    assert (records.domains("m"), records.systems("m")) == (["law", "med"], ["a"])


def test_dimensions_in_queries() -> None:
    dims = [{}, {"split": "test"}, {"split": "test", "class": "law"}, {"split": "train", "class": "law"}]
    records = Records([Record(metric="m", value=float(number), dims=each) for number, each in enumerate(dims)])
    assert [records.value("", "m", **each) for each in dims] == [0, 1, 2, 3]
    assert records.value("", "m", **{"class": "law"}) is None
    assert [record.value for record in records.select("m", split="test")] == [1, 2]
    assert records.select("m", "other") == records.select("other") == records.domains("m", split="valid") == []
    assert len({*records, Record(metric="m", value=1.0, dims={"split": "test"})}) == len(dims)
