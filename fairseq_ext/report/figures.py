"""Tables of measured figures, declared by their columns: mean, spread over runs, bold and omissions follow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairseq_ext.metrics.bootstrap import SIGNIFICANT
from fairseq_ext.report.content import NOTHING, Below, Cell, Missing, Row, Table
from fairseq_ext.report.records import Measured
from fairseq_ext.report.significance import shown_best

NOT_MEASURED = "not measured"
SPREAD = "± is the standard deviation over training runs."
_SHOWN = f"by its runs and theirs (Welch’s t-test, p < {SIGNIFICANT:g}), or against the baseline by ▲ and ▼"
BEST = f"Bold is shown to be better than all others of its column: {_SHOWN}."
BEST_OF_ROW = BEST.replace("column", "row")


@dataclass(frozen=True)
class Figure:
    """A column of figures.

    Attributes:
        heading: of the column.
        of: the figure of a row, by the row's name; None if it was not measured.
        form: how a number is written, as in a format string.
        best: ``min`` or ``max``; None if there is no better or worse.
        mark: the mark of a row's figure, ▲ or ▼, if any.
        baseline: the row that marks compare with.
    """

    heading: str
    of: Callable[[str], Measured | None]
    form: str = ".2f"
    best: Callable[..., Any] | None = None
    mark: Callable[[str], str] = lambda row: ""
    baseline: str = ""

    def cells(self, rows: Sequence[str], competing: Collection[str]) -> list[Cell]:
        """A cell a row; the best of those that compete is in bold if it is shown to be that."""
        found = {row: measured for row in rows if (measured := self.of(row))}
        texts = {row: self._write(measured.mean) for row, measured in found.items()}
        marks = {row: self.mark(row) for row in found}
        rivals = {row: measured for row, measured in found.items() if row in competing}
        best = shown_best(rivals, self.best, marks, self.baseline) if self.best else None
        notes = {row: f"±{self._write(m.sd)}" for row, m in found.items() if m.sd is not None}
        return [
            Cell(texts[row], notes.get(row, ""), row == best, marks[row]) if row in found else NOTHING for row in rows
        ]

    def _write(self, number: float) -> str:
        return format(number, self.form).replace("-", "−")


@dataclass(frozen=True)
class Words:
    """A column of words, or of figures that are none of runs: its heading, and what a row has there, if anything."""

    heading: str
    of: Callable[[str], str | None]

    def cells(self, rows: Sequence[str], competing: Collection[str]) -> list[Cell]:
        """A cell a row."""
        return [Cell(text) if (text := self.of(row)) else NOTHING for row in rows]


Column = Figure | Words


def figure_rows(columns: Sequence[Column], rows: Sequence[str], competing: Collection[str] | None = None) -> list[Row]:
    """Rows of figures, among which the best of a column is marked.

    Args:
        columns: what they are of.
        rows: their names.
        competing: those that may be the best; all if not given.
    """
    cells = [column.cells(rows, rows if competing is None else competing) for column in columns]
    return [Row(name, [column[number] for column in cells]) for number, name in enumerate(rows)]


def figure_table(
    title: str,
    corner: str,
    columns: Sequence[Column],
    groups: Sequence[tuple[str, Sequence[str]]],
    below: Below,
    competing: Collection[str] | None = None,
) -> Table | Missing:
    """A table of figures; missing if none was measured.

    Args:
        title: of the table.
        corner: what the rows are.
        columns: what their figures are of.
        groups: names of rows, each in one group only; figures compete across groups.
        below: what stands under it; see :func:`table_of_rows`.
        competing: see :func:`figure_rows`.
    """
    rows = {row.name: row for row in figure_rows(columns, [name for _, names in groups for name in names], competing)}
    grouped = [(heading, [rows[name] for name in names]) for heading, names in groups]
    return table_of_rows(title, corner, [column.heading for column in columns], grouped, below)


def table_of_rows(
    title: str, corner: str, headings: Sequence[str], groups: Sequence[tuple[str, Sequence[Row]]], below: Below
) -> Table | Missing:
    """A table of rows of figures, without empty groups, and with notes on ± and bold only where these occur."""
    cells = [cell for _, rows in groups for row in rows for cell in row.cells]
    if all(cell == NOTHING for cell in cells):
        return Missing(title, NOT_MEASURED)
    has_best = any(cell.is_best for cell in cells)
    occurs = {SPREAD: any(cell.note for cell in cells), BEST: has_best, BEST_OF_ROW: has_best}
    notes = [note for note in below.notes if occurs.get(note, True)]
    return Table(title, corner, headings, [group for group in groups if group[1]], below=replace(below, notes=notes))


def transposed(rows: Sequence[Row], headings: Sequence[str]) -> list[Row]:
    """Columns as rows, named by their headings."""
    return [Row(heading, [row.cells[number] for row in rows]) for number, heading in enumerate(headings)]
