"""The pictures of what gates decide: whose choice theirs is, by layer, and how they go with a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairseq_ext.experiments.translation.results import CHOICES, FILES
from fairseq_ext.report.content import Below, Block, Picture, Text
from fairseq_ext.report.line_charts import Level, Panel, Point, line_panels
from fairseq_ext.report.markdown import escape
from fairseq_ext.report.token_charts import token_heat

_SERIES = ("first domain", "second domain", "all others")


def draw_agreement(gates: Mapping[str, Any], runs: Sequence[str]) -> Picture:
    """How often the largest gate of each layer is the classifier's choice, and the true domain's; a panel a run."""
    panels = [_agreement_panel(run, gates[run]) for run in runs]
    layers = max((gates[run]["layers"] for run in runs), key=len)
    shapes, size = line_panels(
        panels,
        {choice: number for number, choice in enumerate(CHOICES)},
        "layer: encoder, then decoder",
        "% of the test sentences in which the largest gate is …",
        lambda value: _layer(layers, value),
        is_log=False,
    )
    notes = ["Lines across: the classifier’s own share of true domains, and that of the source’s words alone."]
    below = Below(notes, [FILES["gates"]])
    return Picture("gate-agreement", "Whose choice the gates’ is, by layer", *size, shapes, below)


def _agreement_panel(run: str, found: Mapping[str, Any]) -> Panel:
    lines = []
    for number, (choice, key) in enumerate(CHOICES.items()):
        points = [
            Point(place, 100 * share, f"{run}, {layer}: {100 * share:.1f}% {choice}")
            for place, (layer, share) in enumerate(zip(found["layers"], found[key], strict=True), start=1)
        ]
        lines.append((number, points))
    levels = [Level(100 * found["teacher_correct"], "classifier")]
    if "source" in found:
        levels.append(Level(100 * found["source"]["correct"][0], "source’s words alone"))
    return Panel(run, lines, levels)


def _layer(layers: Sequence[str], value: float) -> str:
    """The short name of a layer by its number from 1; nothing between and beside them."""
    number = round(value)
    if abs(value - number) > 1e-6 or not 1 <= number <= len(layers):
        return ""
    return layers[number - 1].replace("encoder ", "e").replace("decoder ", "d")


def draw_change(joined: Mapping[str, Any]) -> Picture:
    """How the decoder's weights move from the first domain to the second along joined sentences; a panel a run."""
    panels = []
    for run, found in joined.items():
        count = len(found["by_part"])
        lines = [
            (
                number,
                [
                    Point(100 * (part + 0.5) / count, 100 * row[number], f"{run}, {name}: {100 * row[number]:.1f}%")
                    for part, row in enumerate(found["by_part"])
                ],
            )
            for number, name in enumerate(_SERIES)
        ]
        levels = [Level(100 * found["encoder"][number], series=number) for number in (0, 1)]
        panels.append(Panel(run, lines, levels))
    shapes, size = line_panels(
        panels,
        {name: number for number, name in enumerate(_SERIES)},
        "% of the translation",
        "mean weight of the decoder’s gates, %",
        lambda value: f"{value:g}" if 0 <= value <= 100 else "",
        is_log=False,
    )
    sentences = max(found["sentences"] for found in joined.values())
    notes = [
        f"{sentences:,} pairs of test sentences of two domains, joined. A decoder gate averages over the positions so "
        "far, so it cannot turn at once. Lines across are the encoder’s mean weights of the first and second domain: "
        "the encoder sees the whole source."
    ]
    return Picture(
        "gates-change", "Gates over a sentence whose domain changes", *size, shapes, Below(notes, [FILES["joined"]])
    )


def draw_sentences(joined: Mapping[str, Any], count: int) -> list[Block]:
    """The decoder's weights at every piece of some translations, by the first run that was looked at."""
    run = next(iter(joined))
    blocks: list[Block] = []
    for number, shown in enumerate(joined[run]["shown"][:count], start=1):
        aside = ("encoder", shown["encoder"])
        shapes, size = token_heat(joined[run]["domains"], shown["pieces"], shown["tokens"], aside, shown["pair"])
        first, second = shown["pair"]
        title = f"{run}: a sentence of {first}, then one of {second}"
        blocks.append(Text(f"Source: {escape(shown['source'])}"))
        notes = [
            "Across: the translation’s pieces. The stronger the colour, the larger the weight, averaged over layers."
        ]
        blocks.append(Picture(f"gates-tokens-{number}", title, *size, shapes, Below(notes, [FILES["joined"]])))
    return blocks
