"""The index lists the reports that there are, and no other page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.records import Records
from fairseq_ext.metrics.render import Page, write_report
from tests.verbs import verb


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    runs = tmp_path / "runs"
    for name, title in (("one/report", "One <b>"), ("two & three", "Two"), (".building/report", "Hidden")):
        (runs / name).mkdir(parents=True)
        write_report(runs / name, Page(title, f"What {title} shows.", {}), Records([]))
    (runs / "other").mkdir()
    (runs / "other" / "report.html").write_text("<title>Other</title>", encoding="utf-8")
    return runs


def test_the_command_writes_links_and_can_be_repeated(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        verb("reports")([str(runs)])
        assert capsys.readouterr().out == f"{runs / 'reports.html'}\n"
    links = [
        *("one/report/report.html", "one/report/report.md"),
        *("two%20%26%20three/report.html", "two%20%26%20three/report.md"),
    ]
    assert re.findall(r"\]\(([^)]*)\)", (runs / "reports.md").read_text(encoding="utf-8")) == links
    page = (runs / "reports.html").read_text(encoding="utf-8")
    assert re.findall(r'href="([^"]*)"', page) == links
    assert "What One &lt;b&gt; shows." in page


@pytest.mark.parametrize("name", ["none", "empty"])
def test_a_folder_without_reports_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=name):
        verb("reports")([str(tmp_path / name)])
