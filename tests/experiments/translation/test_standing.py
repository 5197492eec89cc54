"""What is recommended, as a table of cases, and where decoding runs stand."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from fairseq_ext.experiments.metrics.comparison import Comparison
from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.convergence import BITS_BY_UPDATE
from fairseq_ext.experiments.translation.standing import Standing, at_a_glance, changes, gains_plot, recommend
from tests.experiments.translation.small_translation_experiment import write_translation_experiment

# Scores in the domains and on general text. A name with a digit at its end is of a second run.
Scores = Mapping[str, tuple[float, float | None]]


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_translation_experiment(tmp_path_factory.mktemp("experiment"))


def standing_of(
    experiment: Path, scores: Scores, p: Mapping[tuple[str, ...], float | None], *further: Record
) -> Standing:
    """Where runs stand with these scores; all differences in the domains are significant but those with another p."""
    records, comparisons = [*further], []
    for name, values in scores.items():
        for domain, value in zip(("AVG", "general text"), values, strict=True):
            if value is not None:
                of = partial(Record, system=name.removesuffix("2"), run=name, metric="chrF", domain=domain)
                records.append(of(value=value))
    known = Records(records)
    for domain in ("AVG", "general text"):
        for one in known.systems("chrF"):
            for other in ("mix", "mix-continued"):
                values = known.value(one, "chrF", domain), known.value(other, "chrF", domain)
                if one != other and None not in values:
                    difference = values[0] - values[1]
                    bounds = difference - 0.4, difference + 0.4
                    chance = p.get((one, other, domain), p.get((one, other), 0.01))
                    comparisons.append(Comparison(one, other, "chrF", domain, difference, *bounds, chance))
    return Standing(load_config(experiment), known, comparisons)


# Scores, other p-values, and how headline and details begin.
CASES: dict[str, tuple[Scores, Mapping[tuple[str, ...], float | None], str, str]] = {
    "a gain": (
        {"mix": (50, 60), "gad": (54.9, 59.9)}, {},
        "Deploy gad: +4.9 chrF (+4.5 to +5.3) over mix in the domains, "
        "−0.1 (−0.5 to +0.3) on general text; it needs no domain.", "",
    ),
    "general text was not measured": (
        {"mix": (50, None), "gad": (52, None)}, {},
        "Deploy gad: +2.0 chrF (+1.6 to +2.4) over mix in the domains; it needs", "General text was not measured.",
    ),
    "a classifier in front": (
        {"mix": (50, 60), "ad-classifier": (52, 60)}, {},
        "Deploy ad-classifier: +2.0 chrF (+1.6 to +2.4) over mix in the domains, "
        "+0.0 (−0.4 to +0.4) on general text; a classifier finds the domain.", "",
    ),
    "a larger gain with a loss on general text": (
        {"mix": (50, 60), "mix-continued": (56, 58.5), "gad": (55, 59.8)}, {},
        "Deploy gad: +5.0 chrF", "mix-continued gains more in the domains, +6.0 chrF (+5.6 to +6.4), but loses on "
        "general text, −1.5 chrF (−1.9 to −1.1).",
    ),
    "a larger gain with a tolerated loss": (
        {"mix": (50, 60), "mix-continued": (56, 59.7), "gad": (55, 59.8)}, {}, "Deploy mix-continued: +6.0 chrF", "",
    ),
    "only gains with losses": (
        {"mix": (50, 60), "mix-continued": (56, 58.5), "gad": (57, 59.6)}, {},
        "Deploy gad for text of the domains only: +7.0 chrF", "",
    ),
    "a loss on general text by chance": (
        {"mix": (50, 60), "mix-continued": (56, 58.5), "gad": (55, 59.2)}, {("gad", "mix", "general text"): 0.2},
        "Deploy gad: +5.0 chrF (+4.6 to +5.4) over mix in the domains, −0.8 (", "mix-continued gains more",
    ),
    "a gain by chance": (
        {"mix": (50, 60), "gad": (52, 60)}, {("gad", "mix"): 0.2},
        "Deploy mix: no other system that works without domain labels is better.",
        "gad, +2.0 chrF (+1.6 to +2.4) over mix, is not significantly better",
    ),
    "too few sentences for a test": (
        {"mix": (50, 60), "gad": (52, 60)}, {("gad", "mix"): None}, "Deploy mix: no other system", "gad, +2.0 chrF",
    ),
    "a gain below the spread of runs": (
        {"mix": (50, 60), "gad": (49, 60), "gad2": (55, 60)}, {}, "Deploy mix: no other system", "gad, +2.0 chrF",
    ),
    "a loss": ({"mix": (53, 60), "gad": (52, 60)}, {}, "Deploy mix: no other system", ""),
    "level with the control": (
        {"mix": (50, 60), "mix-continued": (54, 60), "gad": (54.5, 60)}, {("gad", "mix-continued"): 0.3},
        "Deploy mix-continued: +4.0 chrF", "gad, +0.5 chrF (+0.1 to +0.9) over mix-continued, is not",
    ),
    "level with a control that is itself level with the base": (
        {"mix": (50, 60), "mix-continued": (50.5, 60), "gad": (51, 60)},
        {("gad", "mix-continued"): 0.3, ("mix-continued", "mix"): 0.3}, "Deploy gad: +1.0 chrF", "",
    ),
    "best with the true domain": (
        {"mix": (50, 60), "gad": (52, 60), "ft": (55, None)}, {},
        "Deploy gad: +2.0 chrF", "If the domain of every text is known, deploy ft: +5.0 chrF (+4.6 to +5.4) over mix.",
    ),
    "useless": ({"mix": (20, 60), "gad": (22, 60)}, {}, "Deploy nothing yet: with 22 chrF, most translations of", ""),
    "no base": ({"gad": (52, 60)}, {}, "Deploy gad. No base model was scored", ""),
    "nothing": ({}, {}, "Nothing has been scored yet.", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_recommendation_follows_the_rule(name: str, experiment: Path) -> None:
    scores, p, headline, details = CASES[name]
    advice = recommend(standing_of(experiment, scores, p))
    assert advice.headline.startswith(headline)
    assert advice.details.startswith(details) if details else not advice.details


def test_a_base_trained_here_that_has_not_converged_is_not_deployed(experiment: Path) -> None:
    curve = [Record(run="mix", metric=BITS_BY_UPDATE, value=4.0 - at / 100, dims={"update": at}) for at in (90, 100)]
    advice = recommend(standing_of(experiment, {"mix": (50, 60), "gad": (52, 60)}, {}, *curve))
    assert advice.headline.startswith("Deploy nothing yet: mix has not converged")
    assert advice.compared == "gad"


def test_tables_have_differences_and_who_needs_the_domain(experiment: Path) -> None:
    of_one_domain: Scores = {"ft@bank": (48, 57), "ft": (55, None)}
    scores: Scores = {"mix": (50, 60), **of_one_domain, "ad-classifier": (53, 58), "gad": (52, None)}
    standing = standing_of(experiment, scores, {("gad", "mix"): 0.2})
    assert at_a_glance(standing).text().splitlines() == [
        "System         Domains  over mix             General text  over mix             Needs the domain",
        "mix            50.0     –                    60.0          –                    no",
        "ft             55.0     +5.0 (+4.6 to +5.4)  –             –                    yes",
        "ad-classifier  53.0     +3.0 (+2.6 to +3.4)  58.0          −2.0 (−2.4 to −1.6)  no: classifier",
        "gad            52.0     +2.0 (+1.6 to +2.4)  –             –                    no",
    ]
    assert "| mix | 50.0 | – | **60.0** | – | no |" in at_a_glance(standing).markdown()
    assert changes(standing).text().splitlines() == [
        "System         AVG     general text",
        "ft@bank        −2.0 ▼  −3.0 ▼",
        "ft             +5.0 ▲  –",
        "ad-classifier  +3.0 ▲  −2.0 ▼",
        "gad            +2.0    –",
    ]
    # Without general text there are no columns for it, without a base no matrix.
    assert "General" not in at_a_glance(standing_of(experiment, {"mix": (50, None), "gad": (52, None)}, {})).text()
    assert at_a_glance(standing_of(experiment, {}, {})).rows == []
    assert changes(standing_of(experiment, {"gad": (52, 61)}, {})).rows == []


def test_the_picture_has_all_systems_and_the_base_at_zero(experiment: Path) -> None:
    scores: Scores = {"mix": (50, 60), "gad": (52, 61), "ft": (55, None)}
    [plot] = gains_plot(standing_of(experiment, scores, {}), "gad")
    assert all(f">{name}</text>" in plot.svg for name in scores)
    assert "chrF over mix on general text" in plot.svg
    assert "they need the domain of every text: ft." in plot.note
    [alone] = gains_plot(standing_of(experiment, {"mix": (50, None), "gad": (52, None)}, {}), "gad")
    assert "general text" not in alone.svg + alone.note
    assert gains_plot(standing_of(experiment, {"gad": (52, 61)}, {}), "gad") == []
