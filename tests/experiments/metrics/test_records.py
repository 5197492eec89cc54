"""Records survive their file, and tables ask for means over runs and domains."""

import statistics
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.metrics.records import Mean, Record, Records, read_records, write_records


def test_records_survive_their_file(tmp_path: Path) -> None:
    full = Record(system='a\u2028\n"ż', run="a@1", seed=1 << 40, domain="law", metric="chrF", value=0.1 + 0.2, n=3)
    records = [full, Record(metric="m", value=-1e-300)]
    write_records(tmp_path / "records.jsonl", records)
    assert list(read_records(tmp_path / "records.jsonl")) == records


@pytest.mark.parametrize(
    "line",
    [
        '{"metric": "m", "value": true}',
        '{"metric": "m", "value": NaN}',
        '{"metric": "m", "value": 1, "source": "of an earlier version"}',
    ],
)
def test_another_line_is_named(line: str, tmp_path: Path) -> None:
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
