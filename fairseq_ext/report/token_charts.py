"""Weights over the pieces of a sentence: a narrow heat map in bands, with what was decided before beside it."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq_ext.report.content import Shape
from fairseq_ext.report.pictures import cut, text_width

_CELL = (20.0, 16.0)
_ASIDE_GAP = 10.0  # between what is beside and the first piece
_BAND = 12  # pieces side by side, so that a telephone shows them
_GAP = 12.0


def token_heat(
    rows: Sequence[str],
    pieces: Sequence[str],
    weights: Sequence[Sequence[float]],
    aside: tuple[str, Sequence[float]],
    strong: Sequence[str] = (),
) -> tuple[list[Shape], tuple[float, float]]:
    """Shades by row and piece, and one column beside them; and width and height.

    Args:
        rows: names of the D rows.
        pieces: T, from left to right.
        weights: T×D, from 0 to 1.
        aside: what the column before the first piece is, and its D weights.
        strong: rows that are set off.
    """
    width, height = _CELL
    labels = [cut(name) for name in rows]
    left = text_width(labels) + 12
    heads = [aside[0], *pieces]
    first = left + width + _ASIDE_GAP
    shapes: list[Shape] = []
    y = 0.0
    for start in range(0, len(pieces), _BAND):
        band = list(range(start, min(start + _BAND, len(pieces))))
        columns = [(left, 0, aside[1])] if start == 0 else []
        columns += [(first + place * width, 1 + number, weights[number]) for place, number in enumerate(band)]
        head = text_width(cut(heads[number]) for _, number, _ in columns) + 6
        top = y + head
        for x, number, _ in columns:
            shapes.append(Shape("text", x + width / 2 + 4, top - 5, "small", cut(heads[number]), turn=-90))
        for row, label in enumerate(labels):
            line = top + row * height
            style = "strong small" if rows[row] in strong else "small"
            shapes.append(Shape("text", left - 6, line + height - 4, style, label, anchor="end"))
            for x, number, column in columns:
                title = f"{heads[number]}, {rows[row]}: {column[row]:.2f}"
                shapes.append(Shape("rect", x, line, "faint", "", width - 1, height - 1))
                opacity = round(column[row], 3)
                shapes.append(Shape("rect", x, line, "heat", title, width - 1, height - 1, opacity=opacity))
        y = top + len(rows) * height + _GAP
    return shapes, (first + min(_BAND, len(pieces)) * width, y - _GAP + 2)
