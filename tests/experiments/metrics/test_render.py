"""A report as one page that fetches nothing, and figures that are readable on white and on black."""

import base64
import re
from pathlib import Path

from fairseq_ext.experiments.metrics.plots import line_panels
from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.metrics.render import Page, Plot, write_report
from fairseq_ext.experiments.metrics.tables import Column, Table

PANELS = {"left": {"mix": {1: 3.0, 2: 2.0}}, "right": {"mix": {1: 3.0, 2: 2.0}, "<gad>": {2: 1.0}}}
SVG = line_panels(PANELS, "x", "y")


def test_the_page_holds_everything_and_fetches_nothing(tmp_path: Path) -> None:
    table = Table("T <b>", "System", ["<script>"], [Column("chrF", lambda row: 1.0)])
    page = Page("A & B", "One system.", {"Scores": [table, Plot("curves", 'The "curves"', SVG, "Note.")], "Empty": []})
    write_report(tmp_path, page, Records([Record(metric="m", value=1.0)]))
    assert {path.name for path in tmp_path.iterdir()} == {"curves.svg", "records.jsonl", "report.html", "report.md"}
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8") == SVG
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?!data:)', html)
    [data] = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', html)
    assert base64.b64decode(data).decode() == SVG
    assert ">&lt;script&gt;</td>" in html
    assert "<script>" not in html
    assert "Empty" not in html
    assert 'alt="The &quot;curves&quot;"' in html
    assert 'aria-label="T &lt;b&gt;"' in html


def test_a_figure_is_the_same_bytes_again_and_transparent() -> None:
    assert line_panels(PANELS, "x", "y") == SVG
    assert "fill: #ffffff" not in SVG
    assert SVG.count(">mix<") == 2
