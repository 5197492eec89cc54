"""Records survive their file, and tables ask for means over runs and domains."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.records import Mean, Record, Records, read_records, write_records

_names = st.text(max_size=9)
_numbers = st.none() | st.integers(0, 1 << 40)
_records = st.builds(
    Record,
    system=_names, run=_names, seed=_numbers, domain=_names, metric=_names,
    value=st.floats(allow_nan=False, allow_infinity=False), n=_numbers,
)  # fmt: skip


@given(st.lists(_records, max_size=4))
@settings(deadline=None)
def test_records_survive_their_file(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> None:
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    write_records(path, records)
    assert list(read_records(path)) == records


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
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
