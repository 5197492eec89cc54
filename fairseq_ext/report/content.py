"""What a report consists of, before it is Markdown or HTML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairseq_ext.report.records import Records


@dataclass(frozen=True)
class Cell:
    """One figure of a table.

    Attributes:
        text: as it is shown.
        note: a smaller addition, such as a standard deviation.
        is_best: whether it is shown to be the best of its column or row.
        mark: ▲ or ▼ where it differs significantly from the baseline.
    """

    text: str
    note: str = ""
    is_best: bool = False
    mark: str = ""


NOTHING = Cell("–")
_HALF_PAGE = 560  # pixels


@dataclass(frozen=True)
class Below:
    """What stands under a table or picture, to judge and to trace it.

    Attributes:
        notes: sentences.
        sources: the files that the figures are from, relative to the experiment's folder.
        signatures: by metric, how exactly it was computed.
    """

    notes: Sequence[str] = ()
    sources: Sequence[str] = ()
    signatures: Mapping[str, str] = field(default_factory=dict)

    @property
    def patterns(self) -> list[str]:
        """`sources`, several seeds of a system as one: ``perplexity/manual@*/perplexity.json``."""
        seeds = Counter(map(_pattern, self.sources))
        return list(dict.fromkeys(p if seeds[p := _pattern(path)] > 1 else path for path in self.sources))


def _pattern(path: str) -> str:
    return re.sub(r"@\d+(?=[/.])", "@*", path)


@dataclass(frozen=True)
class Row:
    """A table row: its name and its cells."""

    name: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: with the number it has in the paper.
        corner: what the rows are.
        columns: headings of the cells.
        groups: rows under a heading each; an empty heading is not shown.
        total: a last row of sums.
        is_text: whether cells are words rather than figures.
        below: what stands under it.
    """

    title: str
    corner: str
    columns: Sequence[str]
    groups: Sequence[tuple[str, Sequence[Row]]]
    total: Row | None = None
    is_text: bool = False
    below: Below = Below()


@dataclass(frozen=True)
class Missing:
    """A table or figure that is not there, and why."""

    title: str
    reason: str


@dataclass(frozen=True)
class Shape:
    """A rectangle, text, line, slanting segment or dot; see ``drawing.svg.jinja`` for what each kind reads.

    The number of a dot's series chooses its marker, so that colours need not be told apart.
    """

    kind: str
    x: float
    y: float
    style: str
    text: str = ""
    width: float = 0
    height: float = 0
    anchor: str = "start"
    turn: float = 0
    opacity: float = 1
    series: int | None = None


Plane = tuple[list[Shape], tuple[float, float]]  # shapes, and how wide and high they are


@dataclass(frozen=True)
class Picture:
    """A figure: shapes on a plane of so many pixels, and the name of its file without ``.svg``.

    ``narrow`` is the same for a small screen; without it, a wide figure scrolls there.
    """

    name: str
    title: str
    width: float
    height: float
    shapes: Sequence[Shape]
    below: Below = Below()
    narrow: Plane | None = None


@dataclass(frozen=True)
class Example:
    """One sentence, first as it was, and what every output made of it."""

    title: str
    lines: Sequence[tuple[str, str]]

    @property
    def versions(self) -> list[tuple[list[str], str]]:
        """The different texts in order, each with the names of all that have it; the first stays by itself."""
        (name, text), *others = self.lines
        names: dict[str, list[str]] = {}
        for other, version in others:
            names.setdefault(version, []).append(other)
        return [([name], text), *((found, version) for version, found in names.items())]

    def text_of(self, name: str) -> str | None:
        """What one output made of it; None if it is not among them."""
        return dict(self.lines).get(name)


@dataclass(frozen=True)
class Examples:
    """Sentences and what outputs made of them.

    Attributes:
        title: with the number it has in the paper.
        examples: the sentences.
        langs: of the first text of each, and of the others.
        below: what stands under it.
        compared: the output from which the others' words are seen to differ; empty if that says nothing.
    """

    title: str
    examples: Sequence[Example]
    langs: tuple[str, str]
    below: Below = Below()
    compared: str = ""


@dataclass(frozen=True)
class Text:
    """Paragraphs, headings, lists and whatever else CommonMark has, written in it."""

    markdown: str


Block = Table | Missing | Picture | Examples | Text


@dataclass(frozen=True)
class Section:
    """A part of the report; the anchor is its name in links."""

    anchor: str
    title: str
    blocks: Sequence[Block]

    @property
    def is_side_by_side(self) -> bool:
        """Whether its two blocks, a table and a picture, are narrow enough to stand beside each other."""
        if len(self.blocks) != 2 or not isinstance(self.blocks[0], Table) or not isinstance(self.blocks[1], Picture):
            return False
        return len(self.blocks[0].columns) < 5 and self.blocks[1].width <= _HALF_PAGE


@dataclass(frozen=True)
class Report:
    """The whole: title, a sentence or two, some figures in large print, sections, and the values behind them."""

    title: str
    lead: str
    tiles: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    notes: Sequence[str] = field(default_factory=list)
    records: Records = Records()
