"""The pictures of a report on topic models: what adaptation gains and costs, and how topics are used."""

from __future__ import annotations

import math
from functools import partial

from fairseq_ext.experiments.topics.measure import TOPICS_FILE
from fairseq_ext.experiments.topics.results import BASE_TEXT, PERPLEXITY, TopicDesign, TopicResults
from fairseq_ext.report.content import Below, Picture
from fairseq_ext.report.pictures import DotPoint, dot_plot, heat_map

_SERIES = ("its own text", BASE_TEXT)


def draw_gains(results: TopicResults, design: TopicDesign) -> Picture | None:
    """By how many bits a token each system differs from the base; None if nothing was measured.

    In bits, what is gained and what is lost can be held against each other; in percent, no loss would look too large.
    """
    points = []
    for name, model in design.systems.adapted.items():
        for series, domain in enumerate((model.domain, BASE_TEXT)):
            before, after = (results.records.mean(each, PERPLEXITY, domain) for each in (design.systems.base, name))
            if before is not None and after is not None:
                change = math.log2(after / before)
                said = f"{change:+.2f} bits".replace("-", "−")
                points.append(DotPoint(name, series, change, 0.0, f"{name}, {_SERIES[series]}: {said}"))
    if not points:
        return None
    rows = list(dict.fromkeys(point.row for point in points))
    axis = f"loss against {design.systems.base}, in bits a token"
    draw = partial(dot_plot, rows, _SERIES, points, axis)
    shapes, size = draw()
    notes = ["Left of zero is gained; on the base’s text, right of zero is forgotten. A bit doubles the perplexity."]
    below = Below(notes, [TOPICS_FILE.format("*")])
    return Picture("gains", "Gained and forgotten", *size, shapes, below, draw(is_narrow=True))


def draw_usage(results: TopicResults, design: TopicDesign) -> Picture | None:
    """The share of each topic, by run; None if nothing was measured."""
    names = [name for name, model in design.systems.adapted.items() if model.has_topics]
    runs = [run for name in names for run in design.runs[name]]
    usage = {run: results.of_topics(run)["usage"] for run in runs if results.of_topics(run)}
    if not usage:
        return None
    most = max(map(len, usage.values()))
    shares = [[*found, *[0.0] * (most - len(found))] for found in usage.values()]
    texts = [[f"{100 * share:.0f}" if share >= 0.005 else "" for share in row] for row in shares]
    columns = [str(topic) for topic in range(most)]
    shapes, size = heat_map(list(usage), columns, shares, texts, ("run", "topic"))
    below = Below(["The mean of π over training lines, in percent."], [TOPICS_FILE.format("*")])
    return Picture("usage", "Use of topics by run", *size, shapes, below)
