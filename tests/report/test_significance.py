"""A winner is named only where runs, or the test against the baseline, say that there is one."""

from __future__ import annotations

import pytest

from fairseq_ext.report.records import Measured, over_runs
from fairseq_ext.report.significance import NOT_SHOWN, describe_range, is_lower, shown_best

FOUND = {"mix": [40.0], "gad": [42.0, 42.1, 41.9], "ad": [41.0, 41.1, 40.9], "near": [42.1, 42.3, 41.5]}


def found(*names: str) -> dict[str, Measured]:
    return {name: figure for name in names if (figure := over_runs(FOUND[name]))}


@pytest.mark.parametrize(
    ("names", "best", "expected"),
    [
        (["gad", "ad"], max, "gad"),
        (["gad", "ad"], min, "ad"),
        (["gad", "near"], max, None),  # t = 0.2
        (["gad", "ad", "mix"], max, None),  # a single run shows nothing
        (["gad"], max, None),
    ],
)
def test_runs_tell_systems_apart(names: list[str], best: object, expected: str | None) -> None:
    assert shown_best(found(*names), best) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("marks", "expected"), [({"gad": "▲"}, "gad"), ({"gad": ""}, None), ({"gad": "▼"}, None), ({"ad": "▲"}, None)]
)
def test_the_baseline_is_told_apart_by_its_test(marks: dict[str, str], expected: str | None) -> None:
    assert shown_best(found("mix", "gad", "ad"), max, marks, "mix") == expected
    assert shown_best(found("mix", "gad"), max, marks, "mix") == expected


def test_a_baseline_is_the_best_where_all_others_are_shown_to_be_worse() -> None:
    names = {"full": Measured(80.0), "top": Measured(70.0), "norms": Measured(60.0)}
    assert shown_best(names, max, {"top": "▼", "norms": "▼"}, "full") == "full"
    assert shown_best(names, max, {"top": "▼"}, "full") is None


def test_equal_runs_are_apart_if_their_means_are() -> None:
    assert shown_best({"a": Measured(1, 0.0, 2), "b": Measured(2, 0.0, 2)}, max) == "b"
    assert shown_best({"a": Measured(1, 0.0, 2), "b": Measured(1, 0.0, 2)}, max) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("ad", "gad", "yes"),
        ("gad", "ad", "no"),
        ("near", "gad", NOT_SHOWN),
        ("mix", "gad", "yes"),  # a single run is compared as it is
        ("gad", "mix", "no"),
    ],
)
def test_what_is_lower_is_shown_by_the_runs_of_both(one: str, other: str, expected: str) -> None:
    figures = found(one, other)
    assert is_lower(figures[one], figures[other]) == expected


def test_ranges_name_no_winner_that_is_not_shown() -> None:
    assert describe_range(found("mix", "gad", "near"), max, "mix") == "42.00 (gad) to 41.97 (near); mix 40.00"
    said = "41.00 (ad) to 42.00 (gad); ad shown to be the best"
    assert describe_range(found("gad", "ad"), min) == said
    assert describe_range(found("mix"), min, "mix") == "mix 40.00"
