"""Head room: what routing can be worth on given adapters, and how much of it is won; a report is read by it first.

Even weights know nothing of a sentence, the true domain is what a classifier tries to find. Where the two hardly
differ, no gate can show what it knows.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from fairseq_ext.experiments.translation.results import FILES, PARTS, TRUE_IS_BEST, Design, Results, over_of
from fairseq_ext.metrics.corpus_metrics import METRICS
from fairseq_ext.report.content import Below, Missing, Table
from fairseq_ext.report.figures import BEST, SPREAD, Column, Figure, Words, figure_table

AVERAGE, MISCLASSIFIED = "AVG", "misclassified"
_TITLE = "Head room of routing"
_LOSSES = "Loss of the true translations of the test sets, by adapter"
# Where the weights of plain adapters come from, the least that is known first.
_ROUTES = {
    "even": "the same weight for all",
    "classifier": "the classifier’s choice",
    "classifier-soft": "the classifier’s probabilities",
    "oracle": "the true domain",
    "reference": "the lowest loss of the true translation",
}
_GATES = "gates"
# Of resamples that lie between the ends of an interval.
_PERCENT = (2.5, 97.5)


def gains_over(
    by_output: Mapping[str, Sequence[Mapping[str, np.ndarray]]], others: Sequence[str], metric: str
) -> dict[str, dict[str, list[float]]]:
    """What every output's average over the domains gains over those of some, and between what resamples have it.

    Args:
        by_output: columns of every run, as :func:`~fairseq_ext.experiments.translation.scores.score_columns` has them.
        others: outputs to compare with.
        metric: its name.

    Returns:
        by the other's name and the output's: gain, lower and upper end of the interval of 95%.
    """
    means = {
        name: np.mean([run[AVERAGE] for run in runs], axis=0)
        for name, runs in by_output.items()
        if all(AVERAGE in run for run in runs)
    }
    found: dict[str, dict[str, list[float]]] = {}
    for other in (name for name in others if name in means):
        for name in (name for name in means if name != other):
            gains = np.asarray(METRICS[metric].gain(means[name], means[other]))
            ends = np.percentile(gains[1:], _PERCENT) if len(gains) > 1 else [gains[0]] * 2
            found.setdefault(other, {})[name] = [round(float(value), 4) for value in (gains[0], *ends)]
    return found


def head_room(results: Results, design: Design) -> list[Table | Missing]:
    """A table for every plain output with even weights: the routes of its system, then what has gates."""
    evens = [name for name in design.sources if design.sources[name] == "even" and name in results.outputs]
    if not evens or not results.metrics:
        return [Missing(_TITLE, "not measured: no output of plain adapters has domain-source: even")]
    return [_table(results, design, even) for even in evens]


def losses(results: Results) -> list[Table | Missing]:
    """The loss of the true translations under each sentence's true and best adapter, and under one for all."""
    if not results.worth:
        return []
    columns = {"True domain’s": "true", "Best for the sentence": "best", "Best for all": "best_single"}
    figures = [
        Figure(heading, results.records.of_systems(f"loss, {key}"), best=min) for heading, key in columns.items()
    ]
    figures.append(Figure("True is best, %", results.records.of_systems(TRUE_IS_BEST), ".1f"))
    systems = list(dict.fromkeys(run.split("@")[0] for run in results.worth))
    notes = ["In nats a sentence. Which adapter is best for a sentence only its true translation tells.", SPREAD]
    return [figure_table(_LOSSES, "System", figures, [("", systems)], Below(notes, [FILES["worth"]]), [])]


def _table(results: Results, design: Design, even: str) -> Table | Missing:
    metric, system = results.metrics[0], design.systems[even]
    routes = [
        next((name for name in results.outputs if design.systems[name] == system and design.sources[name] == route), "")
        for route in _ROUTES
    ]
    oracle = routes[list(_ROUTES).index("oracle")]
    gated = [name for name in results.outputs if name in design.gated]
    names = [name for name in [*routes, *gated] if name]
    gains = {name: _gain(results, name, even, metric) for name in names}
    room = gains.get(oracle)
    caution = _caution(results, metric, oracle, even, room)
    columns: list[Column] = [
        Words("Routed by", lambda name: _GATES if name in design.gated else _ROUTES[design.sources[name]]),
        *(
            Figure(f"{each}: {column}", results.records.of_systems(each, column), best=METRICS[each].best)
            for each in results.metrics
            for column in (AVERAGE, MISCLASSIFIED)
        ),
        Words(f"Over {even} [95%]", lambda name: _interval(gains[name])),
        Words("Share of head room", lambda name: "" if caution else _share(gains[name], room)),
    ]
    notes = [
        f"Over {even}: gain in {metric}, {AVERAGE}, and where 95% of the bootstrap’s resamples have it. Head room is "
        f"what {oracle or 'the true domain'} gains; the share is what an output wins of it. Gates are measured by "
        "adapters of their own: a share above what plain adapters win says something where both were trained as long.",
        *([caution] if caution else []),
        SPREAD,
        BEST,
    ]
    groups = [("", [name for name in names if name not in gated]), ("", gated)]
    below = Below(notes, [FILES["scores"]])
    competing = [name for name in names if name not in design.told]
    return figure_table(f"{_TITLE}: {system}", "Output", columns, [g for g in groups if g[1]], below, competing)


def _gain(results: Results, output: str, over: str, metric: str) -> list[float] | None:
    """Gain, lower and upper end."""
    found = [results.records.mean(output, over_of(metric, over, part), AVERAGE) for part in PARTS]
    return None if any(value is None for value in found) else [float(value or 0) for value in found]


def _caution(results: Results, metric: str, oracle: str, even: str, room: Sequence[float] | None) -> str:
    """Why shares of head room would say nothing, if so."""
    if room is None:
        return "Shares need an output of the same system with domain-source: oracle."
    if room[1] <= 0:
        return (
            f"Caution: head room is {_signed(room[0])}, and its interval reaches to {_signed(room[1])}. There is too "
            "little to route for to tell routes apart; shares of it would say nothing. Train the adapters longer."
        )
    spread = _spread(results, metric, oracle, even)
    if spread is not None and spread >= room[0]:
        return (
            f"Caution: head room is {_signed(room[0])}, no more than its standard deviation over training runs, "
            f"{spread:.2f}; shares of it would say nothing."
        )
    return ""


def _spread(results: Results, metric: str, oracle: str, even: str) -> float | None:
    """The standard deviation of head room over runs; None of a single one."""
    runs = [
        {run.partition("@")[2]: value for run, value in results.records.by_run(name, metric, AVERAGE).items()}
        for name in (oracle, even)
    ]
    rooms = [runs[0][run] - runs[1][run] for run in runs[0] if run in runs[1]]
    return statistics.stdev(rooms) if len(rooms) > 1 else None


def _interval(gain: Sequence[float] | None) -> str:
    return "" if gain is None else f"{_signed(gain[0])} [{_signed(gain[1])}, {_signed(gain[2])}]"


def _share(gain: Sequence[float] | None, room: Sequence[float] | None) -> str:
    return "" if gain is None or room is None else f"{100 * gain[0] / room[0]:.0f}%".replace("-", "−")


def _signed(number: float) -> str:
    return f"{number:+.2f}".replace("-", "−")
