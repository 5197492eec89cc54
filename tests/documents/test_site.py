"""The site that scripts/docs.sh builds is for everybody: axe-core, light and dark, wide and narrow."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import TIMEOUT, needs_axe, needs_browser, open_browser, show, violations

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-docs" / "bin" / "python"
# One each with code and pictures, messages, wide tables and a list of words, and a report.
PAGES = ("index", "using", "installing", "choosing", "results/products")
# The theme has made its buttons, and put its frames around tables.
READY = """return [...document.querySelectorAll(".md-typeset pre")].every((each) => each.querySelector("nav"))
    && [...document.querySelectorAll(".md-typeset table")].every((each) => each.closest(".md-typeset__scrollwrap"))"""

pytestmark = [
    pytest.mark.slow,
    needs_browser,
    needs_axe,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs .venv-docs (scripts/docs.sh)"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [PYTHON, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with open_browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_nobody_is_left_out(site: Path, browser: Any, page: str, scheme: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    for width in (390, 1280):
        show(browser, width, scheme)
        browser.get((site / f"{page}.html").as_uri())
        browser.execute_script("localStorage.clear()")  # of the scheme that an earlier page had
        browser.refresh()
        WebDriverWait(browser, TIMEOUT).until(lambda _: browser.execute_script(READY))
        assert violations(browser) == []
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
