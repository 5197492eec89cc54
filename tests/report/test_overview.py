"""The overview finds the reports that there are, and no other page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.measurements import Records
from fairseq_ext.report.overview import Entry, find_reports
from fairseq_ext.report.render import Page, write_report
from tests.verbs import verb


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    runs = tmp_path / "runs"
    for name, title in (("one/report", "One <b>"), ("two & three", "Two"), (".building/report", "Hidden")):
        (runs / name).mkdir(parents=True)
        write_report(runs / name, Page(title, f"What {title} shows.", {}), Records([]))
    (runs / "other.html").write_text("<title>Other</title>", encoding="utf-8")
    (runs / "two & three" / "report.md").unlink()
    return runs


def test_reports_are_found_by_what_their_pages_say(runs: Path) -> None:
    assert find_reports(runs) == [
        Entry("One <b>", "What One <b> shows.", "one/report/report.html", "one/report/report.md"),
        Entry("Two", "What Two shows.", "two%20%26%20three/report.html"),
    ]


def test_the_command_writes_links_and_can_be_repeated(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        verb("reports")([str(runs)])
        assert capsys.readouterr().out == f"{runs / 'reports.html'}\n"
    text = (runs / "reports.md").read_text(encoding="utf-8")
    assert text.splitlines()[2:] == [
        "- [One \\<b\\>](one/report/report.md): What One \\<b\\> shows.",
        "- [Two](two%20%26%20three/report.html): What Two shows.",
    ]
    links = re.findall('href="(.*?)"', (runs / "reports.html").read_text(encoding="utf-8"))
    assert links == ["one/report/report.html", "one/report/report.md", "two%20%26%20three/report.html"]


@pytest.mark.parametrize(("name", "message"), [("none", "no such folder"), ("empty", "holds no report")])
def test_a_folder_without_reports_is_named(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=f"{name}: {message}"):
        verb("reports")([str(tmp_path / name)])
