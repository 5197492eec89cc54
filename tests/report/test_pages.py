"""Every page in a browser: whoever reads it, on whatever screen, can; and what its script adds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.recipes.registry import load_recipe
from fairseq_ext.report.measurements import Records
from fairseq_ext.report.overview import PAGE_FILE, find_reports, write_overview
from fairseq_ext.report.render import Page, write_report
from fairseq_ext.report.tables import Column, Table
from tests.browser import needs_axe, needs_browser, open_browser, show, violations
from tests.recorded import restore
from tests.recorded.record import WRITERS

KINDS = sorted(WRITERS)
PAGES = [*KINDS, "overview"]

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
        shutil.copy(folder / kind / "report.html", folder / f"{kind}.html")
    write_overview(folder, find_reports(folder))
    (folder / PAGE_FILE).rename(folder / "overview.html")
    return folder


@pytest.fixture
def small(tmp_path: Path, browser: Any) -> Any:
    """A page of one table, open in the browser."""
    values = {"a": 9.5, "b": -1.0, "c": None, "d": 1010.2}
    table = Table("T", "System", list(values), [Column("chrF", values.get, ",.1f")])
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
def test_nothing_is_cut_off_and_no_policy_is_broken(name: str, pages: Path, browser: Any) -> None:
    browser.get_log("browser")
    show(browser, 1280, "light")
    browser.get((pages / f"{name}.html").as_uri())
    script = """
    return [...document.querySelectorAll("svg.drawing:not(.narrow) text")].filter((text) => {
      const [own, all] = [text, text.ownerSVGElement].map((each) => each.getBoundingClientRect());
      const isWide = own.left < all.left - 1 || own.right > all.right + 1;
      return isWide || own.top < all.top - 1 || own.bottom > all.bottom + 1;
    }).map((text) => text.textContent)"""
    assert browser.execute_script(script) == []
    assert browser.get_log("browser") == []


def test_a_click_sorts_up_then_down_then_not_at_all(small: Any) -> None:
    [_, button] = small.find_elements("css selector", "th button")
    orders = []
    for _ in range(3):
        button.click()
        orders.append("".join(texts(small, "tbody td:first-child")))
    assert orders == ["badc", "dabc", "abcd"]
    assert texts(small, "th[aria-sort]") == []


def test_without_scripts_a_page_says_the_same(small: Any) -> None:
    with_script = texts(small, "table, dl, figure")
    small.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    small.refresh()
    small.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert texts(small, "th button") == []
    assert texts(small, "table, dl, figure") == with_script
