"""What routing can be worth, and what of it is won, from made-up scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.experiments.translation.head_room import gains_over, head_room, losses
from fairseq_ext.experiments.translation.results import Design, Results
from fairseq_ext.report.content import Missing, Table
from tests.experiments.translation import made_up


def with_even(gain: float, interval: float, folder: Path) -> tuple[Results, Design]:
    """Even weights, which the true domain gains so much over, and gates 1.5 chrF."""
    contents = made_up.experiment_file(folder)
    contents["translate"]["outputs"]["ad-even"] = {"system": "ad", "domain-source": "even"}
    design = Design.of(made_up.load(folder, contents))
    gains = {**made_up.GAIN, "ad-even": made_up.GAIN["ad-oracle"] - gain}
    scores = made_up.make_scores(gains=gains)
    over = {name: [value - gains["ad-even"]] * 3 for name, value in gains.items() if name != "ad-even"}
    over["ad-oracle"] = [gain, gain - interval, gain + interval]
    return Results(scores={**scores, "over_even": {"chrF": {"ad-even": over}}}), design


def cells(table: Any) -> dict[str, list[str]]:
    assert isinstance(table, Table)
    return {row.name: [cell.text for cell in row.cells] for _, rows in table.groups for row in rows}


def test_gates_win_a_share_of_what_the_true_domain_gains(tmp_path: Path) -> None:
    [table] = head_room(*with_even(2.0, 0.5, tmp_path))
    rows = cells(table)
    assert list(rows) == ["ad-even", "ad-classifier", "ad-oracle", "gad", "gad-ce"]
    assert rows["ad-even"][0] == "the same weight for all"
    # Even weights are at 1.0 over mix, the true domain at 3.0, gates at 2.5, the classifier at 1.5.
    assert [rows[name][-1] for name in rows] == ["–", "25%", "100%", "75%", "−70%"]
    assert rows["ad-oracle"][-2] == "+2.00 [+1.50, +2.50]"


def test_shares_of_next_to_nothing_are_not_shown(tmp_path: Path) -> None:
    [table] = head_room(*with_even(0.2, 0.3, tmp_path))
    assert {row[-1] for row in cells(table).values()} == {"–"}
    assert isinstance(table, Table)
    assert any("Caution: head room is +0.20, and its interval reaches to −0.10" in note for note in table.below.notes)


def test_without_even_weights_it_is_said(tmp_path: Path) -> None:
    design = Design.of(made_up.load(tmp_path, made_up.experiment_file(tmp_path)))
    [missing] = head_room(Results(scores=made_up.make_scores()), design)
    assert isinstance(missing, Missing)
    assert "domain-source: even" in missing.reason


@pytest.mark.parametrize(("metric", "sign"), [("chrF", 1), ("TER", -1)])
def test_gains_are_of_the_better_and_ends_of_the_resamples(metric: str, sign: int) -> None:
    even, other = np.zeros(1001), np.linspace(1, 2, 1001)
    other[0] = 1.4
    columns = {"even": [{"AVG": even}], "x": [{"AVG": other}, {"AVG": other}], "some": [{"law": other}]}
    found = gains_over(columns, ["even"], metric)
    ends = sorted([sign * 1.026, sign * 1.976])
    assert list(found["even"]) == ["x"]
    assert found["even"]["x"] == pytest.approx([sign * 1.4, *ends], abs=2e-3)


def test_losses_are_by_system() -> None:
    run = {"domains": ["a"], "true": 42.7, "best": 41.9, "best_single": 43.3, "each": {}, "true_is_best": 0.38}
    [table] = losses(Results(worth={"ad@1": run, "ad@2": {**run, "true": 42.9}}))
    assert cells(table) == {"ad": ["42.80", "41.90", "43.30", "38.0"]}
    assert losses(Results()) == []
