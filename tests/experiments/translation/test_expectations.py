"""Answers say what the numbers say, in every case that there is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.experiments.translation import expectations
from fairseq_ext.experiments.translation.expectations import approaches, beats, cost_of_domain, describe_gain
from fairseq_ext.experiments.translation.results import Design, Results
from fairseq_ext.report.content import Missing, Table
from tests.experiments.translation import made_up

SPACE = "\u00a0"


@pytest.fixture
def design(tmp_path: Path) -> Design:
    return Design.of(made_up.make_experiment(tmp_path))


def results(parameters: dict[str, Any] | None = None, **gains: float) -> Results:
    named = {name.replace("_", "-"): gain for name, gain in gains.items()}
    counts = made_up.make_parameters(made_up.DOMAINS) if parameters is None else parameters
    return Results(scores=made_up.make_scores(gains=made_up.GAIN | named), parameters=counts)


@pytest.mark.parametrize(
    ("gain", "p", "answer"),
    [
        (1.24, 0.001, "yes, +1.2 chrF (p < 0.05)"),
        (0.3, 0.21, "not shown, +0.3 chrF (p = 0.21)"),
        (0.3, 0.05, "not shown, +0.3 chrF (p = 0.05)"),
        (0.3, None, "higher, +0.3 chrF (not tested)"),
        (-0.4, 0.001, "no, −0.4 chrF (p < 0.05)"),
        (-0.4, 0.5, "no, −0.4 chrF (p = 0.50)"),
        (-0.4, None, "no, −0.4 chrF (not tested)"),
        (0.04, 0.9, "no difference, 0.0 chrF (p = 0.90)"),
        (-0.04, 0.9, "no difference, 0.0 chrF (p = 0.90)"),
    ],
)
def test_gains_in_words(gain: float, p: float | None, answer: str) -> None:
    assert describe_gain(gain, "chrF", p).replace(SPACE, " ") == answer


def test_the_baseline_is_compared_column_by_column(design: Design) -> None:
    found = results()
    assert beats(found, design, "chrF", "gad", "misclassified").startswith("yes, +2.5 chrF")
    assert beats(found, design, "chrF", "ad-oracle", "ood:NEWS") == "not measured"
    assert beats(found, design, "chrF", "gone", "AVG") == "not measured"


@pytest.mark.parametrize(
    ("gains", "answer"),
    [
        ({"gad": 5.0}, "yes, +1.0 chrF"),
        ({"gad": 4.0}, "equal, 0.0 chrF"),
        ({"gad": 1.0}, "no, −3.0 chrF, but 25% of the way from mix"),
        ({"gad": -1.0}, "no, −5.0 chrF, no nearer than mix"),
        ({"gad": -2.0, "ft": -1.0}, "no, −1.0 chrF (ft is itself −1.0 against mix)"),
        ({"gad": 0.0, "ft": -1.0}, "yes, +1.0 chrF"),
    ],
)
def test_distance_to_fine_tuning(design: Design, gains: dict[str, float], answer: str) -> None:
    assert approaches(results(**gains), design, "chrF", "gad", "ft") == answer


def test_without_fine_tuning_nothing_is_claimed(design: Design) -> None:
    assert approaches(results(), design, "chrF", "gad", None) == "not measured: no model a domain"


def test_cost_is_what_a_domain_adds(design: Design) -> None:
    found = results()
    assert cost_of_domain(found, design, "gad") == "433,333 parameters, 8.7% of mix"
    assert cost_of_domain(found, design, "ft") == "a whole model, 5,000,000 parameters"
    assert cost_of_domain(found, design, "mix") == "none; the model is one for all domains"
    assert cost_of_domain(results(parameters={}), design, "gad") == "not measured"
    tuned = replace(design, systems={**design.systems, "gad": "tuned"}, starts={**design.starts, "tuned": "mix"})
    same = made_up.make_parameters(made_up.DOMAINS) | {"tuned": {"total": 5_000_000, "trained": 5_000_000}}
    assert cost_of_domain(results(parameters=same), tuned, "gad") == "no parameters beyond mix’s"
    longer = replace(design, starts={**design.starts, "mix": "start"})
    equal = made_up.make_parameters(made_up.DOMAINS) | {"start": {"total": 5_000_000, "trained": 5_000_000}}
    assert cost_of_domain(results(parameters=equal), longer, "gad") == "433,333 parameters, 8.7% of mix"


def test_the_checklist_has_a_row_an_output(design: Design) -> None:
    table = expectations.checklist(results(), design)
    assert isinstance(table, Table)
    rows = {row.name: [cell.text.replace(SPACE, " ") for cell in row.cells] for row in table.groups[0][1]}
    assert list(rows) == ["ad-oracle", "ad-classifier", "gad"]
    assert rows["gad"] == [
        "yes, +2.5 chrF (p < 0.05)",
        "no, −1.5 chrF, but 62% of the way from mix",
        "yes, +2.5 chrF (p < 0.05)",
        "NEWS: yes, +2.5 chrF (p < 0.05)",
        "433,333 parameters, 8.7% of mix",
    ]
    assert rows["ad-oracle"][2:4] == ["not applicable: told the true domain", "not measured"]
    assert table.below.sources == ["scores/scores.json", "analysis/parameters/parameters.json"]


def test_comet_comes_first_where_it_was_run(design: Design) -> None:
    found = results()
    for output in found.scores["outputs"].values():  # type: ignore[index]
        output["COMET"] = output["BLEU"]
    table = expectations.checklist(found, design)
    assert isinstance(table, Table)
    assert "COMET" in table.groups[0][1][0].cells[0].text


def test_nothing_scored_nothing_answered(design: Design) -> None:
    assert isinstance(expectations.checklist(Results(), design), Missing)
    assert isinstance(expectations.checklist(results(), replace(design, main=["mix"])), Missing)


def test_below_the_baseline_is_better_by_an_error_rate(design: Design) -> None:
    scores = made_up.make_scores()
    for output in scores["outputs"].values():
        output["TER"] = {
            column: {**figure, "values": [100 - value for value in figure["values"]]}
            for column, figure in output["chrF"].items()
        }
        del output["chrF"], output["BLEU"]
    found = Results(scores=scores)
    assert beats(found, design, "TER", "gad", "misclassified").startswith("yes, +2.5 TER")
    assert beats(found, design, "TER", "gad-ce", "AVG").startswith("no, −0.4 TER")
    assert describe_gain(0.3, "TER", None).startswith("lower, +0.3 TER")
    table = expectations.checklist(found, design)
    assert isinstance(table, Table)
    assert "Of TER, lower is better" in " ".join(table.below.notes)
