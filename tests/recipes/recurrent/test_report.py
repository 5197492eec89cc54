"""The figure of the report."""

from __future__ import annotations

from fairseq_ext.modules.combinations import COMBINATIONS
from fairseq_ext.recipes.recurrent.report import GROUPS


def test_every_combination_is_in_a_panel() -> None:
    assert {*COMBINATIONS} == {name for members in GROUPS.values() for name in members}
