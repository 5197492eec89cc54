"""The figure of the report."""

from __future__ import annotations

from fairseq_ext.metrics.records import Record, Records
from fairseq_ext.modules.combinations import COMBINATIONS
from fairseq_ext.recipes.recurrent.report import GROUPS, curves
from fairseq_ext.recipes.report import VALID_BY_EPOCH


def test_every_combination_is_in_a_panel() -> None:
    assert {*COMBINATIONS} == {name for members in GROUPS.values() for name in members}
    records = [
        Record(system=name, run=name, domain=str(epoch), metric=VALID_BY_EPOCH, value=value)
        for name in COMBINATIONS
        for epoch, value in ((1, 1000.0), (2, 100.0), (3, 90.0))
    ]
    [figure] = curves(Records(records), {name: name for name in COMBINATIONS})
    # The standard model is in every panel; the first epoch is too high to be drawn.
    assert figure.svg.count(">none<") == len(GROUPS)
    assert "1000" not in figure.svg
