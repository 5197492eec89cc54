"""Every page in a browser: whoever reads it, on whatever screen, can, and it breaks no policy."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base.steps import run_steps
from fairseq_ext.experiments.translation.cleaning_report import write_cleaning_report
from tests.browser import needs_axe, needs_browser, open_browser, show, violations
from tests.experiments.reranking.test_report import made_up, run
from tests.experiments.translation.test_cleaning_report import CLEANING, LAW, tally
from tests.recorded import restore
from tests.recorded.record import WRITERS

KINDS = sorted(WRITERS)
PAGES = [*KINDS, "reranking", "cleaning"]

pytestmark = [pytest.mark.slow, needs_browser, needs_axe]


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
        report = restore(kind, WRITERS[kind](folder / f"run-{kind}")).report()
        run_steps([report])
        shutil.copytree(report.output, folder / kind)
    reranking = made_up(tmp_path_factory.mktemp("reranking"))
    run(reranking, "kneser-ney", "rerank", "report")
    shutil.copytree(reranking.work_dir / "report", folder / "reranking")
    (folder / "cleaning").mkdir()
    write_cleaning_report(folder / "cleaning", ("en", "pl"), CLEANING, {"law": tally(LAW, imported=7)})
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_accessible(name: str, pages: Path, browser: Any) -> None:
    browser.get_log("browser")
    browser.get((pages / name / "report.html").as_uri())
    assert browser.get_log("browser") == []
    for width, scheme in ((1280, "light"), (390, "dark")):
        show(browser, width, scheme)
        assert violations(browser) == [], f"{width} pixels, {scheme}"
        # Nothing is wider than the screen: what is, scrolls in its own frame.
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
