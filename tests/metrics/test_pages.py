"""Every page in a browser: whoever reads it, on whatever screen, can; and what its script adds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.cleaning.report import write_cleaning_report
from fairseq_ext.engine.steps import run_steps
from fairseq_ext.metrics.records import Mean, Records
from fairseq_ext.metrics.render import Page, write_report
from fairseq_ext.metrics.tables import Column, Table
from fairseq_ext.recipes.overview import write_index
from fairseq_ext.recipes.registry import load_recipe
from tests.browser import needs_axe, needs_browser, open_browser, show, violations
from tests.cleaning.test_report import LAW, OPTIONS, tally
from tests.recipes.reranking.test_report import made_up, run
from tests.recorded import restore
from tests.recorded.record import WRITERS

KINDS = sorted(WRITERS)
PAGES = [*KINDS, "reranking", "cleaning", "overview"]

pytestmark = [pytest.mark.slow, needs_browser]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with open_browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of each name, the experiments' of what a tiny real run has measured."""
    folder = tmp_path_factory.mktemp("pages")
    for kind in KINDS:
        (folder / f"run-{kind}").mkdir()
        (folder / kind).mkdir()
        experiment = restore(kind, WRITERS[kind](folder / f"run-{kind}"))
        run_steps(load_recipe(kind).stages(experiment)[-1].steps())
        shutil.copytree(experiment.work_dir / "report", folder / kind, dirs_exist_ok=True)
    reranking = made_up(tmp_path_factory.mktemp("reranking"))
    run(reranking, "kneser-ney", "rerank", "report")
    shutil.copytree(reranking.work_dir / "report", folder / "reranking")
    (folder / "cleaning").mkdir()
    write_cleaning_report(folder / "cleaning", ("en", "pl"), OPTIONS, {"law": tally(LAW, imported=7)})
    index = write_index(folder)
    for name in PAGES[:-1]:
        shutil.copy(folder / name / "report.html", folder / f"{name}.html")
    index.rename(folder / "overview.html")
    return folder


@pytest.fixture
def small(tmp_path: Path, browser: Any) -> Any:
    """A page of one table, open in the browser."""
    values = {"a": Mean(9.5, 0.1, 2), "b": -1.0, "c": None, "d": 1010.2}
    texts = {"a": "run 10", "b": "run 9", "c": None, "d": "run 2"}
    table = Table("T", "System", list(values), [Column("chrF", values.get, ",.1f"), Column("Run", texts.get)])
    write_report(tmp_path, Page("R", "L", {"S": [table]}), Records([]))
    show(browser, 1280, "light")
    browser.get((tmp_path / "report.html").as_uri())
    return browser


def texts(browser: Any, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText)"
    found: list[str] = browser.execute_script(script, selector)
    return found


@needs_axe
@pytest.mark.parametrize("name", PAGES)
def test_nobody_is_left_out(name: str, pages: Path, browser: Any) -> None:
    browser.get((pages / f"{name}.html").as_uri())
    for width, scheme, rules in (
        (1280, "light", ()),
        (1280, "dark", ("color-contrast",)),
        (390, "light", ("color-contrast", "scrollable-region-focusable")),
        (390, "dark", ()),
    ):
        show(browser, width, scheme)
        assert violations(browser, *rules) == [], f"{width} pixels, {scheme}"
        # Nothing is wider than the screen: what is, scrolls in its own frame.
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", PAGES)
def test_no_policy_is_broken(name: str, pages: Path, browser: Any) -> None:
    browser.get_log("browser")
    show(browser, 1280, "light")
    browser.get((pages / f"{name}.html").as_uri())
    assert browser.get_log("browser") == []


@pytest.mark.parametrize(("column", "orders"), [(1, ["badc", "dabc", "abcd"]), (2, ["dbac", "abdc", "abcd"])])
def test_a_click_sorts_up_then_down_then_not_at_all(column: int, orders: list[str], small: Any) -> None:
    button = small.find_elements("css selector", "th button")[column]
    found = []
    for _ in range(3):
        button.click()
        found.append("".join(texts(small, "tbody td:first-child")))
    assert found == orders
    assert texts(small, "th[aria-sort]") == []


def test_without_scripts_a_page_says_the_same(small: Any) -> None:
    with_script = texts(small, "table, dl, figure")
    small.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    small.refresh()
    small.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert texts(small, "th button") == []
    assert texts(small, "table, dl, figure") == with_script
