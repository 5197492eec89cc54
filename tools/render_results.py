#!/usr/bin/env python
"""Render the tables and figures of docs/results/*.md and docs/choosing.md again from their records.

A page describes its tables and figures in YAML comments. The text between such a comment and ``<!-- end -->`` is
replaced:

    <!-- table {title: "Quality by domain: chrF", paper: Table 10, metric: chrF, digits: 2} -->
    <!-- figure {title: Distances, paper: Figure 3, metric: distance, file: distances, draw: heat} -->

Records are next to the page; those of another page are named by ``records``.

``--add runs/NAME docs/results/NAME.jsonl`` writes the records of a page from an experiment: means over runs, and
differences. ``--baseline SYSTEM`` marks results that are better or worse than that system.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import yaml  # noqa: E402

from fairseq_ext.base.errors import InputError, run_command  # noqa: E402
from fairseq_ext.experiments.metrics.comparison import COMPARISONS_FILE, Comparison, mark, read_comparisons  # noqa: E402
from fairseq_ext.experiments.metrics.plots import COLOURS, GREY, draw_figure, heat_map, line_panels  # noqa: E402
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Records, read_records  # noqa: E402
from fairseq_ext.experiments.metrics.render import Plot  # noqa: E402
from fairseq_ext.experiments.metrics.tables import Column, Table  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULTS = DOCS / "results"
PAGES = [DOCS / "choosing.md", *sorted(path.with_suffix(".md") for path in RESULTS.glob("*.jsonl"))]
EVERY = "all domains"  # row of what was measured on all domains together
_BLOCK = re.compile(r"(?P<comment><!-- (?:table|figure) (?P<asked>\{.*?\}) -->)\n.*?<!-- end -->", re.DOTALL)


@dataclass(frozen=True)
class Result:
    """A published value.

    Attributes:
        system: measured system, or domain of a measurement without a system.
        metric: name of the metric.
        value: mean over runs.
        domain: domain or set of the measurement.
        sd: standard deviation over runs; None for a single run.
        low: lower end of the 95 % interval of a difference.
        high: upper end of the interval.
        p: two-sided p-value of a difference.
        mark: ▲ or ▼ if the value is better or worse than the table's baseline (p < 0.05).
    """

    system: str
    metric: str
    value: float
    domain: str = ""
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    mark: str = ""

    def written(self, digits: int) -> str:
        """Format the value with its deviation, interval, p-value and mark."""
        is_difference = self.low is not None or self.p is not None
        number = f"{{:{'+' if is_difference else ''},.{digits}f}}".format
        text = number(self.value)
        if self.sd is not None:
            text += f" ± {number(self.sd)}"
        if self.low is not None and self.high is not None:
            text += f" ({number(self.low)} to {number(self.high)})"
        if self.p is not None:
            text += f" (p = {self.p})"
        return f"{text} {self.mark}".strip().replace("-", "−")


@dataclass(frozen=True)
class Block:
    """A table or figure described in a comment.

    Attributes:
        title: title above it.
        records: page whose records are shown; this page's by default.
        paper: number of the table or figure in the page's paper.
        metric: metric to show for all domains, with one column per domain.
        columns: alternatively, the metric, domain and digits of each column, by heading.
        system: systems in order; all by default.
        domain: domains in order; all by default.
        digits: number of decimal places.
        across: whether the systems are columns.
        corner: heading of the first column.
        note: note below it.
        draw: kind of figure: ``heat``, ``dots``, ``curves`` or ``scatter``.
        file: name of the figure, after the name of the page.
        full: value of the darkest cell of a heat map.
        labels: labels of the figure's horizontal and vertical axis.
        panels: systems in each panel of ``curves``, by title.
    """

    title: str
    records: str = ""
    paper: str = ""
    metric: str = ""
    columns: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    system: Sequence[str] = ()
    domain: Sequence[str] = ()
    digits: int = 2
    across: bool = False
    corner: str = ""
    note: str = ""
    draw: str = ""
    file: str = ""
    full: float = 1
    labels: tuple[str, str] = ("", "")
    panels: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """The note, and the number in the paper."""
        return list(filter(None, [self.note, f"{self.paper} in the paper." if self.paper else ""]))


class Results:
    """The records of a page."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.all = results
        self._by_key = {(each.system, each.metric, each.domain): each for each in results}

    def get(self, system: str, column: tuple[str, str, int]) -> Result | None:
        """Return the result of a system in a column."""
        return self._by_key.get((system, *column[:2]))

    def columns(self, block: Block) -> dict[str, tuple[str, str, int]]:
        """Return metric, domain and digits of the columns, by heading."""
        if not block.columns:
            domains = block.domain or dict.fromkeys(each.domain for each in self.all if each.metric == block.metric)
            return {name or block.metric: (block.metric, name, block.digits) for name in domains}
        filled = {name: (*given, *("", block.digits)[len(given) - 1 :]) for name, given in block.columns.items()}
        return {name: (str(metric), str(domain), int(digits)) for name, (metric, domain, digits) in filled.items()}

    def systems(self, block: Block) -> list[str]:
        """Return the rows: systems with a result in any column."""
        wanted = {column[:2] for column in self.columns(block).values()}
        found = dict.fromkeys(each.system for each in self.all if (each.metric, each.domain) in wanted)
        missing = [name for name in block.system if name not in found]
        if missing or not found:
            raise InputError(
                f"{block.title}: has no records of {', '.join(missing) or block.metric}; correct its names"
            )
        return list(block.system or found)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--add", nargs=2, type=Path, metavar=("RUN", "RESULTS"), help="write the records of a page from an experiment"
    )
    parser.add_argument("--baseline", default="", help="system that marks refer to")
    options = parser.parse_args()
    if options.add:
        experiment, results = options.add
        records = read_records(experiment / "report" / RECORDS_FILE)
        write_results(results, summarise(records, comparisons_of(experiment), options.baseline))
        return
    for page in PAGES:
        for name, text in render(page).items():
            page.with_name(name).write_text(text, encoding="utf-8")


def render(page: Path) -> dict[str, str]:
    """Return a page with its tables and figures rendered again, and the figures by file name."""
    files: dict[str, str] = {}

    def write(match: re.Match[str]) -> str:
        block = read_block(page, match["asked"])
        records = RESULTS / f"{block.records}.jsonl" if block.records else page.with_suffix(".jsonl")
        results = Results(read_results(records))
        if block.draw:
            plot = Plot(
                f"{page.stem}-{block.file}", block.title, DRAWN[block.draw](results, block), " ".join(block.notes)
            )
            files[f"{plot.name}.svg"] = plot.svg
            text = plot.markdown()
        else:
            text = make_table(results, block).markdown()
        return f"{match['comment']}\n\n{text}\n\n<!-- end -->"

    files[page.name] = _BLOCK.sub(write, page.read_text(encoding="utf-8"))
    return files


def read_block(page: Path, asked: str) -> Block:
    """Parse the description in a comment."""
    try:
        return Block(**yaml.safe_load(asked))
    except (yaml.YAMLError, TypeError) as error:
        raise InputError(f"{page}: {asked.splitlines()[0]}: {error}; see tools/render_results.py") from None


def make_table(results: Results, block: Block) -> Table:
    """Return a table of results."""

    def make_column(heading: str, column: tuple[str, str, int]) -> Column:
        def cell(system: str) -> str | None:
            found = results.get(system, column)
            return found.written(column[2]) if found else None

        return Column(heading, cell)

    columns = [make_column(*each) for each in results.columns(block).items()]
    corner = block.corner or ("Domain" if block.across else "System")
    return Table(block.title, corner, results.systems(block), columns, block.notes, across=block.across)


def draw_heat(results: Results, block: Block) -> str:
    """Draw a heat map of systems by domains."""
    columns, systems = results.columns(block), results.systems(block)
    found = [[results.get(system, column) for column in columns.values()] for system in systems]
    shares = [[abs(each.value) / block.full if each else 0 for each in line] for line in found]
    texts = [[each.written(block.digits) if each and each.value else "" for each in line] for line in found]
    return heat_map(shares, systems, list(columns), *block.labels, texts)


def draw_dots(results: Results, block: Block) -> str:
    """Draw a row per system and a colour per column, with lines for standard deviations."""
    columns, systems = results.columns(block), results.systems(block)

    def draw(axes: Axes) -> None:
        for (heading, column), colour in zip(columns.items(), COLOURS, strict=False):
            found = {name: each for name in systems if (each := results.get(name, column))}
            places = [systems.index(name) for name in found]
            values = [each.value for each in found.values()]
            spread = [each.sd or 0 for each in found.values()]
            axes.errorbar(values, places, xerr=spread, fmt="o", markersize=4, color=colour, label=heading)
        axes.axvline(0, color=GREY, linewidth=0.8)
        axes.set_yticks(range(len(systems)), systems)
        axes.invert_yaxis()
        axes.set_xlabel(block.labels[0])
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))

    return draw_figure(8, 1 + 0.22 * len(systems), draw)


def draw_curves(results: Results, block: Block) -> str:
    """Draw a line per system, with domains on the horizontal axis."""

    def line(system: str) -> dict[float, float]:
        found = [each for each in results.all if (each.system, each.metric) == (system, block.metric)]
        return {float(each.domain): each.value for each in found}

    panels = block.panels or {"": results.systems(block)}
    return line_panels({title: {name: line(name) for name in names} for title, names in panels.items()}, *block.labels)


def draw_scatter(results: Results, block: Block) -> str:
    """Draw a labelled dot per system: first column on a logarithmic horizontal axis, second on the vertical axis."""
    across, up = results.columns(block).values()
    found = {name: (results.get(name, across), results.get(name, up)) for name in results.systems(block)}

    def draw(axes: Axes) -> None:
        for name, (x, y) in found.items():
            if x and y:
                axes.plot(x.value, y.value, "o", color=COLOURS[0])
                axes.annotate(name, (x.value, y.value), textcoords="offset points", xytext=(5, 5), fontsize=8)
        axes.set_xscale("log")
        axes.margins(x=0.2, y=0.15)
        axes.set_xlabel(block.labels[0])
        axes.set_ylabel(block.labels[1])

    return draw_figure(6, 3.2, draw)


DRAWN = {"heat": draw_heat, "dots": draw_dots, "curves": draw_curves, "scatter": draw_scatter}


def summarise(records: Records, comparisons: Sequence[Comparison] = (), baseline: str = "") -> list[Result]:
    """Return means over the runs of a report, and differences between systems.

    Args:
        records: records of the report.
        comparisons: comparisons of its systems, over sentences or runs.
        baseline: system that marks refer to.
    """
    marks = {(each.system, each.metric, each.domain): mark(each) for each in comparisons if each.baseline == baseline}
    results: dict[tuple[str, str, str], Result] = {}
    for record in records:
        # A table has one column for a domain with its further dimensions. What was measured on domains alone, such as
        # their distances, has a row for each domain instead.
        system, domain = (record.system, record.domain) if record.system else (record.domain or EVERY, "")
        domain = ", ".join(map(str, [*filter(None, [domain]), *record.dims.values()]))
        key = system, record.metric, domain
        mean = records.mean(record.system, record.metric, record.domain, **record.dims)
        if mean is not None:
            results[key] = Result(*key[:2], mean.value, domain, mean.sd or None, mark=marks.get(key, ""))
    differences = [
        Result(
            each.system,
            f"{each.metric} over {each.baseline}",
            each.difference,
            each.domain,
            low=each.low,
            high=each.high,
        )
        for each in comparisons
    ]
    return [*results.values(), *differences]


def comparisons_of(experiment: Path) -> list[Comparison]:
    """Return all comparisons of an experiment; a report has only some."""
    files = [experiment / folder / COMPARISONS_FILE for folder in ("scores", "report")]
    return next(filter(None, map(read_comparisons, files)), [])


def write_results(path: Path, results: Sequence[Result]) -> None:
    """Write results as JSON lines, without empty fields."""
    lines = ({name: value for name, value in asdict(each).items() if value not in (None, "")} for each in results)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def read_results(path: Path) -> list[Result]:
    """Read results of :func:`write_results`."""
    try:
        return [Result(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: has no valid results ({error}); restore it from the repository") from None


if __name__ == "__main__":
    run_command(main)
