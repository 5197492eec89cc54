"""The page says what the report says, is one file, and no text from the corpora can do it harm."""

import base64
import hashlib
import itertools
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.report import Count, render_report, write_report
from fairseq_ext.filtering.statistics import (
    Statistics,
    empty_statistics,
    make_report,
    make_sample,
    ratio_histogram,
    word_histogram,
)

LANGS = ("en", "pl")
CASCADE = ["length", "language", "repeated"]
# HTML elements that have no end.
VOID = {"meta", "col", "wbr"}


class Page(HTMLParser):
    """The elements of a page in order, the texts between them, and the rows of its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if "td" in self._open or "th" in self._open:
            self.rows[-1][-1] += f" {data.strip()}" if data.strip() else ""

    def row(self, *start: str) -> list[str]:
        """The first table row that starts with these cells."""
        rows = [[cell.strip() for cell in row] for row in self.rows]
        return next(row for row in rows if row[: len(start)] == list(start))


def script_hash(text: str) -> str:
    """Of the page's script, as policies for content give it."""
    [script] = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def statistics(pairs: int, rejected: dict[str, int], **others: Any) -> Statistics:
    """Statistics of pairs of 4 and 8 words."""
    kept = pairs - sum(rejected.values())
    before, after = (np.tile([[4, 8]], (number, 1)) for number in (pairs, kept))
    result = empty_statistics(LANGS, CASCADE)
    result["rejected"] |= rejected
    result |= {"pairs": pairs, "kept": kept, **others}
    result |= {"words_before": word_histogram(before, LANGS), "words_after": word_histogram(after, LANGS)}
    return result | {"ratio_before": ratio_histogram(before), "ratio_after": ratio_histogram(after)}


@pytest.fixture
def report() -> dict[str, Any]:
    tallies = {"lines": 2100, "bad_utf8_dropped": 7}
    found = {"en": {"de": 3, "fr": 1}, "pl": {"cs": 12, "sk": 0}}
    law = statistics(2000, {"length": 500, "language": 15, "repeated": 1}, **{"import": tallies}, languages=found)
    law["samples"]["language"] = [make_sample(1234, "target is cs (0.97)", Pair("All that.", "Všechno to."))]
    med = statistics(1000, {"repeated": 10}, changed_by_normalisation=30, **{"import": {"lines": 1000}})
    options = {"length": {"max_words": 1200, "unit": None}, "language": {"accept": ["la", "en"], "strict": True}}
    return make_report(LANGS, CASCADE, options, {"law": law, "med_it": med})


def hostile_report(report: dict[str, Any], text: str) -> str:
    """The page of a report whose samples and options hold this text."""
    report["domains"]["law"]["samples"]["language"] = [make_sample(1, text, Pair(text, text))]
    report["options"]["length"]["unit"] = text
    return render_report(report)


def reverse(value: Any) -> Any:
    """The same JSON, its keys the other way round."""
    return {key: reverse(value[key]) for key in reversed(value)} if isinstance(value, dict) else value


def test_the_table_has_counts_and_shares(report: dict[str, Any]) -> None:
    page = Page(render_report(report))
    assert page.row("law") == ["law", "2,000", "1,484 74.2%", "500 25.0%", "15 0.8%", "1 <0.1%"]
    assert page.row("med_ it") == ["med_ it", "1,000", "990 99.0%", "0", "0", "10 1.0%"]
    assert page.row("All domains") == ["All domains", "3,000", "2,474 82.5%", "500 16.7%", "15 0.5%", "11 0.4%"]


def test_languages_imports_options_and_samples_are_shown(report: dict[str, Any]) -> None:
    page = Page(render_report(report))
    assert page.row("Domain", "Dropped", "de") == ["Domain", "Dropped", "de", "fr"]
    assert ["law", "4", "3", "1"] in [[cell.strip() for cell in row] for row in page.rows]
    assert page.row("Domain", "Lines") == ["Domain", "Lines", "Bad UTF-8 dropped"]
    assert page.row("All domains", "3,100")[2] == "7"
    assert page.row("max_words") == ["max_words", "1,200"]
    assert page.row("unit") == ["unit", "not set"]
    assert page.row("accept") == ["accept", "la, en"]
    assert page.row("strict") == ["strict", "yes"]
    assert page.row("law", "1,234") == ["law", "1,234", "target is cs (0.97)", "All that.", "Všechno to."]


def test_the_summary_names_filter_and_domain(report: dict[str, Any]) -> None:
    text = " ".join(" ".join(Page(render_report(report)).texts).split())
    assert "82.5% of 3,000 sentence pairs in 2 domains were kept." in text
    assert "The filter length dropped most of all (500 pairs, 16.7%); law lost the largest share, 25.8%" in text


def test_many_languages_end_in_a_column_of_others(report: dict[str, Any]) -> None:
    report["domains"]["law"]["languages"]["pl"] = {f"l{number:02}": 20 - number for number in range(12)}
    row = Page(render_report(report)).row("Domain", "Dropped", "l00")
    assert row[2:] == [*(f"l{number:02}" for number in range(8)), "others"]
    assert Page(render_report(report)).row("law", "174")[-1] == str(12 + 11 + 10 + 9)


def test_bars_are_drawn_to_the_axis(report: dict[str, Any]) -> None:
    text = render_report(report)
    # The axis ends at 30%: law's 25% for length, then 0.75% for language; med_it's 1% for repetitions.
    assert '<rect class="f0" x="0.000%" width="83.333%"' in text
    assert '<rect class="f1" x="83.333%" width="2.500%"' in text
    assert '<rect class="f2" x="0.000%" width="3.333%"' in text


def test_files_do_not_depend_on_the_order_of_keys(report: dict[str, Any], tmp_path: Path) -> None:
    write_report(tmp_path / "one", report)
    write_report(tmp_path / "other", reverse(report))
    for name in ("report.json", "report.html"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    text = (tmp_path / "one" / "report.json").read_text(encoding="utf-8")
    assert json.loads(text) == report
    assert "Všechno" in text
    assert (tmp_path / "one" / "report.html").read_text(encoding="utf-8") == render_report(json.loads(text))


def test_the_page_fetches_nothing_and_runs_its_own_script_alone(report: dict[str, Any]) -> None:
    text = render_report(report)
    page = Page(text)
    assert page.elements.count("script") == 1
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(page.elements)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "xlink:href")]
    assert all(value and value.startswith("#") for name, value in page.attributes if name == "href")
    assert not re.search(r"https?:|url\(|@import", text)
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script_hash(text)}'" in text


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "</details></table></section></div><style>*{display:none}</style><h1>",
        "\" onmouseover=alert(1) x='",
        "&lt;b&gt; &#0; ]]> <!-- <![CDATA[",
        "{{ 7 * 7 }}{% raw %}",
        "W" * 5000,
    ],
)
def test_hostile_text_stays_text(report: dict[str, Any], text: str) -> None:
    harmless = Page(hostile_report(report, "harmless"))
    page = Page(hostile_report(report, text))
    assert page.elements == harmless.elements
    assert [name for name, _ in page.attributes] == [name for name, _ in harmless.attributes]
    assert page.row("law", "1")[3] == (text if len(text) <= 300 else text[:299] + "…")


def test_control_characters_become_marks(report: dict[str, Any]) -> None:
    text = hostile_report(report, "a\x00b\x1b[31mc\x85d\u202ee\u2067f\ufeffg\ud800h \u200fשלום\u200d")
    assert "a\ufffdb\ufffd[31mc\ufffdd\ufffde\ufffdf\ufffdg\ufffdh \u200fשלום\u200d" in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    # Text from right to left finds its own direction.
    assert text.count('dir="auto"') == 3


@pytest.mark.parametrize("num_domains", [1, 30])
def test_any_number_of_domains_has_a_page(report: dict[str, Any], num_domains: int) -> None:
    domains = {f"domain-{number:02}": report["domains"]["law"] for number in range(num_domains)}
    page = Page(render_report(report | {"domains": domains}))
    # One alone needs no sums and no row of charts for all.
    assert any("All domains" in text for text in page.texts) == (num_domains > 1)
    assert page.elements.count("figure") == 3 * (num_domains + (num_domains > 1))


def test_sections_without_content_are_left_out() -> None:
    nothing = make_report(LANGS, CASCADE, {}, {"law": empty_statistics(LANGS, CASCADE)})
    page = Page(render_report(nothing))
    assert page.row("law") == ["law", "0", "0 –", "0", "0", "0"]
    assert "No filter dropped anything." in page.texts
    ids = [value for name, value in page.attributes if name == "id"]
    assert ids == ["dropped", "lengths"]


@pytest.mark.parametrize(
    ("value", "total", "percent"),
    [
        (0, 0, "–"),
        (0, 5, "0%"),
        (5, 5, "100%"),
        (1, 2000, "<0.1%"),
        (1, 1999, "0.1%"),
        (1998, 1999, "99.9%"),
        (1999, 2000, ">99.9%"),
        (1, 3, "33.3%"),
    ],
)
def test_percentages_are_never_rounded_to_nothing_or_all(value: int, total: int, percent: str) -> None:
    assert Count(value, total).percent == percent


def test_importing_loads_no_drawing_or_templates() -> None:
    code = "import sys, fairseq_ext.filtering.report; print({'jinja2', 'matplotlib', 'torch'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


# Linear RGB as seen with each kind of colour blindness: Machado et al. (2009), severity 1.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def oklab(linear: np.ndarray) -> np.ndarray:
    """From linear RGB to OKLab (Ottosson, 2020). Shape: N×3, N×3"""
    to_cones = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
    to_cones = np.array([*to_cones, [0.0883024619, 0.2817188376, 0.6299787005]])
    to_lab = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099]]
    to_lab = np.array([*to_lab, [0.0259040371, 0.7827717662, -0.8086757660]])
    return np.cbrt(np.clip(linear, 0, 1) @ to_cones.T) @ to_lab.T


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize(("scheme", "least"), [("light", 0.1), ("dark", 0.1)])
def test_colours_differ_to_every_eye(report: dict[str, Any], vision: str, scheme: str, least: float) -> None:
    found = re.findall(r"--f\d: #(\w{6})", render_report(report))
    assert len(found) == 20
    colours = found[:10] if scheme == "light" else found[10:]
    encoded = np.array([[int(colour[start : start + 2], 16) / 255 for start in (0, 2, 4)] for colour in colours])
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    seen = oklab(linear @ np.array(VISIONS[vision]).T)
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2)) >= least
