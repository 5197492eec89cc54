"""Tables of records: rows and a function per column. They show mean ± sd, with the best value in bold."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq_ext.experiments.metrics.records import Mean

_NOTHING = "–"
# Control characters, including those that override text direction. Joiners and direction marks are needed by scripts.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_NUMBER = re.compile(r"(\*\*)?(\\?[<>] ?)?[+−]?\d")  # at the start of a cell
SPREAD = "± is the standard deviation over training runs."
BEST = "The best of a column is in bold."
BEST_OF_ROW = "The best of a row is in bold."

Value = Mean | float | str | None


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    heading: str
    of: Callable[[Any], Value]  # maps a row to its value
    form: str = ".2f"  # format specification of numbers
    best: Callable[..., Any] | None = None  # ``min`` or ``max``; None to mark no best value
    is_text: bool | None = None  # whether to align left; by default for columns without numbers
    beside: Collection[Any] = ()  # rows to exclude from the best, such as oracles, unless there are no other rows
    is_markdown: bool = False  # whether texts are Markdown already

    def holds_text(self, cells: Sequence[str]) -> bool:
        """Return whether the cells contain text rather than numbers."""
        if self.is_text is not None:
            return self.is_text
        return any(cell != _NOTHING for cell in cells) and not any(_NUMBER.match(cell) for cell in cells)

    def cells(self, rows: Sequence[Any]) -> list[str]:
        """Return the cells of the column as Markdown."""
        values = [self.of(row) for row in rows]
        is_beside = [row in self.beside for row in rows]
        excluded = [False for _ in rows] if all(is_beside) else is_beside
        means = [None if left_out else _mean(value) for left_out, value in zip(excluded, values, strict=True)]
        best = self.best(mean for mean in means if mean is not None) if self.best and any(means) else None
        texts = map(self._write, values)
        return [f"**{t}**" if best is not None and mean == best else t for t, mean in zip(texts, means, strict=True)]

    def _write(self, value: Value) -> str:
        if value is None:
            return _NOTHING
        if isinstance(value, str):
            return value if self.is_markdown else escape(value)
        if isinstance(value, Mean) and value.sd is not None:
            return f"{self._number(value.value)} ± {self._number(value.sd)}"
        return self._number(value.value if isinstance(value, Mean) else value)

    def _number(self, number: float) -> str:
        return format(number, self.form).replace("-", "−")


@dataclass(frozen=True)
class Table:
    """A table with a title above and notes below it."""

    title: str
    corner: str  # heading of the column of row names
    rows: Sequence[Any]  # names, or objects with names
    columns: Sequence[Column]
    notes: Sequence[str] = ()
    labels: Callable[[Any], str] = str  # maps rows to display names
    across: bool = False  # whether to transpose the table

    def markdown(self) -> str:
        """Return Markdown with title and notes. Without rows, a sentence replaces the table."""
        if not self.rows:
            return f"### {escape(self.title)}\n\nNot measured yet."
        cells = [column.cells(self.rows) for column in self.columns]
        head, *body = self._grid(cells)
        alignments = [
            ":-" if column.holds_text(written) else "-:" for column, written in zip(self.columns, cells, strict=True)
        ]
        columns = ["-:"] * len(self.rows) if self.across else alignments
        lines = [_line(head), _line([":-", *columns]), *map(_line, body)]
        return "\n\n".join([f"### {escape(self.title)}", "\n".join(lines), *self._notes(cells)])

    def text(self) -> str:
        """Return the table without title and notes as aligned text for a terminal."""
        grid = self._grid([column.cells(self.rows) for column in self.columns])
        plain = [[re.sub(r"\*\*|\\(?=\W)", "", cell) for cell in line] for line in grid]
        widths = [max(map(len, column)) for column in zip(*plain, strict=True)]
        lines = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in plain)
        return "\n".join(lines)

    def _grid(self, cells: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """Arrange the cells of columns, with headings and names of rows."""
        lines = zip(self.rows, zip(*cells, strict=True), strict=True)
        grid = [
            [escape(self.corner), *(escape(column.heading) for column in self.columns)],
            *([escape(self.labels(row)), *line] for row, line in lines),
        ]
        return list(zip(*grid, strict=True)) if self.across else [*grid]

    def _notes(self, cells: Sequence[Sequence[str]]) -> list[str]:
        columns = zip(self.columns, cells, strict=True)
        written = "".join(text for column, texts in columns if not column.is_markdown for text in texts)
        notes = list(self.notes)
        if " ± " in written:
            notes.append(SPREAD)
        if "**" in written:
            notes.append(BEST_OF_ROW if self.across else BEST)
        return [" ".join(map(escape, notes))] if notes else []


def escape(text: str) -> str:
    """Escape text for Markdown and join its lines. Control characters are replaced with U+FFFD."""
    text = _CONTROLS.sub("\ufffd", " ".join(text.split()))
    text = re.sub(r"[\\`*\[\]|~$]|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])", r"\\\g<0>", text)
    # Underscores within words are not markup.
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)
    return re.sub(r"^(#|>|=|[-+](?=[-\s]|$)|\d+(?=[.)](\s|$)))", _escape_start, text)


def _escape_start(match: re.Match[str]) -> str:
    start = match[0]
    return f"\\{start}" if not start[0].isdigit() else f"{start}\\"


def _mean(value: Value) -> float | None:
    if isinstance(value, Mean):
        return value.value
    return value if isinstance(value, int | float) else None


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
