"""What is recommended follows from quality, warnings, tests and spread, and from nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fairseq_ext.experiments.translation.results import Design, Results
from fairseq_ext.experiments.translation.verdict import in_words, is_shown, quality_of, recommend, summary

from tests.experiments.translation import made_up

WARNING = "mix has not converged: train it longer first"


@pytest.fixture
def design(tmp_path: Path) -> Design:
    """mix is a base, ft and ad-oracle are told the domain."""
    return Design.of(made_up.make_experiment(tmp_path))


def results(p: float | None = 0.001, shift: float = 0.0, **gains: float) -> Results:
    """Averages of chrF and BLEU by gain over 44 and 22, and every output compared with mix."""
    record = made_up.make_scores(gains={name.replace("_", "-"): gain + shift for name, gain in gains.items()})
    compared = {
        name: {"AVG": {"difference": round(gain - gains["mix"], 4), "low": None, "high": None, "p": p}}
        for name, gain in zip(record["outputs"], gains.values(), strict=True)
        if name != "mix" and "mix" in gains
    }
    return Results(scores={**record, "comparisons": {"chrF": {"mix": compared}, "BLEU": {"mix": compared}}})


def average(found: Results, output: str) -> float:
    mean = found.records.mean(output, "chrF", "AVG")
    assert mean is not None
    return mean


def test_what_is_shown_to_be_ahead_is_deployed(design: Design) -> None:
    found = results(mix=0, ad_classifier=1.5, gad=2.5)
    assert recommend(found, design, []) == "Deploy gad: +2.5 chrF over mix (p < 0.05)."


@pytest.mark.parametrize("p", [0.05, 0.4, None])
def test_what_is_not_shown_to_be_ahead_gives_way_to_the_base(design: Design, p: float | None) -> None:
    said = recommend(results(p, mix=0, ad_classifier=1.5, gad=2.5), design, [])
    assert said is not None
    assert said.startswith("Deploy mix: gad is +2.5 chrF ahead of it, which is not shown to be more than chance. ")
    assert "where domains come and go" in said


def test_a_lead_within_the_spread_of_trainings_is_not_shown(design: Design) -> None:
    # Runs of gad differ by a standard deviation of 0.25.
    for lead, best in ((0.24, "mix"), (0.26, "gad")):
        said = recommend(results(mix=0, gad=lead), design, [])
        assert said is not None
        assert said.startswith(f"Deploy {best}: ")


def test_a_base_that_is_ahead_is_deployed(design: Design) -> None:
    found = results(mix=0, ad_classifier=-1.5, gad=-0.5)
    assert recommend(found, design, []) == "Deploy mix: no system with adapters that needs no domain is ahead of it."


def test_systems_that_must_be_told_the_domain_are_for_those_who_know_it(design: Design) -> None:
    found = results(mix=0, ft=4, ad_oracle=3, gad=2.5)
    said = recommend(found, design, [])
    assert said is not None
    assert said.startswith("Deploy gad: +2.5")
    assert said.endswith(f" If the domain of every text is known: ft (chrF {average(found, 'ft'):.1f}).")
    said = recommend(results(mix=0, ft=1, ad_oracle=0.5, gad=2.5), design, [])
    assert said is not None
    assert "If the domain" not in said


def test_nothing_is_deployed_on_a_base_that_has_not_converged(design: Design) -> None:
    found = results(mix=0, gad=2.5)
    assert recommend(found, design, [WARNING, "other"]) == f"Deploy nothing yet: {WARNING}."
    assert summary(found, design, [WARNING]).endswith(f" Warning: {WARNING}.")


def test_nothing_is_deployed_that_nobody_could_use(design: Design) -> None:
    said = recommend(results(shift=-15, mix=0, gad=2.5), design, [WARNING])  # BLEU 9.5
    assert said is not None
    assert said.startswith("Deploy nothing yet: gad is the best system, and it is not usable: ")


def test_without_a_base_nothing_says_whether_adapters_help(design: Design) -> None:
    said = recommend(results(ad_classifier=1.5, gad=2.5), design, [])
    assert said == "Deploy gad. No base model was scored beside it, so nothing says whether its adapters help."


def test_the_better_of_two_bases_is_what_adapters_have_to_beat(design: Design) -> None:
    two = replace(design, plain=frozenset({"mix", "ad-classifier"}))
    found = results(mix=0, ad_classifier=1.5, gad=1.7)
    said = recommend(found, two, [])
    assert said is not None
    # Over mix it is shown; over the better base it was not tested.
    assert said.startswith("Deploy ad-classifier: gad is +0.2 chrF ahead of it, which is not shown")


def test_of_errors_the_fewest_are_the_best(design: Design) -> None:
    record: dict[str, Any] = made_up.make_scores(gains={"mix": 0, "gad": -2.5, "ad-oracle": -3})
    for output in record["outputs"].values():
        output["TER"] = output.pop("chrF")
        del output["BLEU"]
    compared = {"gad": {"AVG": {"difference": 2.5, "low": 2, "high": 3, "p": 0.001}}}
    found = Results(scores={**record, "comparisons": {"TER": {"mix": compared}}})
    said = recommend(found, design, [])
    assert said is not None
    assert said.startswith("Deploy gad: +2.5 TER over mix (p < 0.05). If the domain of every text is known: ad-oracle")


@pytest.mark.parametrize("scores", [None, {**made_up.make_scores(), "outputs": {}}])
def test_nothing_scored_is_no_reason_to_say_anything(design: Design, scores: dict[str, Any] | None) -> None:
    assert recommend(Results(scores=scores), design, [WARNING]) is None
    assert summary(Results(scores=scores), design, []) == "Nothing has been scored yet."


def test_the_summary_has_the_best_without_a_domain_and_its_quality(design: Design) -> None:
    found = results(mix=0, ft=9, gad=2.5)
    assert summary(found, design, []) == (
        "The best system that needs no domain is gad, with chrF 46.5, BLEU 24.5: the meaning is mostly clear, with "
        "many errors: a draft to be corrected."
    )
    assert quality_of(found, "mix") == quality_of(found, "gad")
    assert quality_of(found, "nobody") is None


@pytest.mark.parametrize(
    ("bleu", "chrf", "start"),
    [
        (9.9, 90, "not usable"),  # BLEU where there is one
        (10, 0, "the topic can be told"),
        (20, None, "the meaning is mostly clear"),
        (30, None, "understandable to good"),
        (40, None, "good"),
        (100, None, "good"),
        (None, 29.9, "not usable"),
        (None, 30, "the topic can be told"),
        (None, 42, "the meaning is mostly clear"),
        (None, 53, "understandable to good"),
        (None, 62, "good"),
        (None, 100, "good"),
    ],
)
def test_quality_has_words(bleu: float | None, chrf: float | None, start: str) -> None:
    said = in_words(bleu, chrf)
    assert said is not None
    assert said.startswith(start)


def test_without_a_score_there_are_no_words() -> None:
    assert in_words(None, None) is None


def test_a_worse_output_is_never_shown_to_be_better() -> None:
    assert not is_shown(None)
    assert not is_shown({"difference": -2.0, "low": -3, "high": -1, "p": 0.001})
    assert not is_shown({"difference": 2.0, "low": 1, "high": 3, "p": 0.05})
    assert is_shown({"difference": 2.0, "low": 1, "high": 3, "p": 0.049})
    assert not is_shown({"difference": 2.0, "low": 1, "high": 3, "p": 0.049}, spread=2.0)
