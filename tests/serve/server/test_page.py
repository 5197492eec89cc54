"""The page in a browser: what is typed is translated, a domain is forced, and the bars say what the gates chose."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import needs_axe, needs_browser, open_browser, show, violations
from tests.serve.server.fake_server import TIMEOUT, Served, served
from tests.serve.server.fake_system import FakeSystem

pytestmark = [pytest.mark.slow, needs_browser]


class Page:
    """The service's page in a browser, 390 pixels wide."""

    def __init__(self, browser: Any, service: Served) -> None:
        self.browser = browser
        self.service = service
        browser.get(f"http://127.0.0.1:{service.port}/")
        self.wait(lambda: self.all("#routes input"))

    def wait(self, holds: Callable[[], Any]) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, TIMEOUT).until(lambda _: holds())

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.browser.find_elements("css selector", selector)
        return found

    def texts(self, selector: str) -> list[str]:
        """What is seen of elements, read in one go: the page replaces them."""
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText)"
        found: list[str] = self.browser.execute_script(script, selector)
        return found

    def type(self, *keys: str) -> None:
        """Send keys to whatever has the focus."""
        self.browser.switch_to.active_element.send_keys(*keys)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with open_browser(tmp_path_factory.mktemp("browser"), width=390) as browser:
        yield browser


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Page]:
    with served(corrections=tmp_path / "corrections") as service:
        yield Page(browser, service)
    # Neither the policy for content nor a script complained.
    log = [entry for entry in browser.get_log("browser") if "400 (Bad Request)" not in entry["message"]]
    assert log == []


def test_one_types_forces_a_domain_and_reads_the_bars(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.type("law of the sea", Keys.CONTROL + Keys.ENTER)  # the text has the focus from the start
    page.wait(lambda: page.texts(".card h2") == ["Gates", "Base model"])
    assert page.texts(".card p:first-of-type") == ["sea the of law", "sea the of law [base]"]
    assert page.texts("mark") == ["[base]"]
    assert page.texts("footer") == [f"Base model: {FakeSystem.base}"]
    bars = [(each.get_attribute("aria-label"), each.get_attribute("aria-valuenow")) for each in page.all(".bar")]
    assert bars == [("law", "70"), ("med", "15"), ("sub", "15")]
    assert page.all(".layers")[0].get_attribute("aria-label") == "encoder, layer by layer: 70\xa0%, 70\xa0%, 70\xa0%"
    assert [len(each.find_elements("css selector", "i")) for each in page.all(".layers")] == [3] * 6
    assert page.texts(".word > span") == ["sea", "the", "of", "law"]
    widths = [each.size["width"] for each in page.all(".bar span")]
    assert widths[0] > 4 * widths[1]

    page.type(Keys.TAB)  # to the routes, among which arrows choose
    page.type(*[Keys.ARROW_RIGHT] * 4)
    page.wait(lambda: page.texts(".card h2") == ["Gates", "med", "Base model"])
    assert page.texts("[data-route=med] mark") == ["[med]"]
    assert page.texts("[data-route=med] p.hint") == ["1 word differs from Gates"]
    assert page.texts(".forced .domain") == ["med\nforced"]
    # Nothing is wider than a phone.
    assert page.browser.execute_script("return document.documentElement.scrollWidth") == 390


def test_one_corrects_a_translation_and_sees_what_it_kept(page: Page, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    page.type("law {0} sea", Keys.CONTROL + Keys.ENTER)
    page.wait(lambda: page.texts("[data-route=gates] p.hint") == ["Placeholders kept: {0}"])
    page.all("#routes input")[3].send_keys(Keys.SPACE)
    page.wait(lambda: page.all("[data-route=law] summary"))
    page.all("[data-route=law] summary")[0].click()
    [field] = page.all("[data-route=law] textarea")
    field.clear()
    field.send_keys("see {0}")
    page.all("[data-route=law] .correction button")[0].click()
    page.wait(lambda: page.texts("[data-route=law] .correction output") == ["Kept for law. Thank you."])
    [line] = (tmp_path / "corrections" / "law.jsonl").read_text().splitlines()
    assert json.loads(line) == {"source": "law {0} sea", "target": "see {0}"}


def test_a_file_is_chosen_translated_and_fetched(page: Page, tmp_path: Path) -> None:
    import urllib.request

    (tmp_path / "a.txt").write_text("a b\n" * 40)
    page.all("#file")[0].send_keys(str(tmp_path / "a.txt"))
    page.wait(lambda: page.texts("#file-status") == ["a.txt: 40 of 40 texts"])
    page.wait(lambda: page.all("#download:not([hidden])"))
    link = page.all("#download")[0]
    assert link.get_attribute("download") == "a_pl.txt"
    with urllib.request.urlopen(link.get_attribute("href")) as response:
        assert response.read().decode() == "b a\n" * 40
    (tmp_path / "a.exe").write_bytes(b"MZ")
    page.all("#file")[0].send_keys(str(tmp_path / "a.exe"))
    page.wait(lambda: page.texts("#error") == ["Invalid request: file format not supported"])


@needs_axe
def test_the_page_is_accessible(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.type("law of the sea", Keys.CONTROL + Keys.ENTER)
    page.wait(lambda: page.texts("mark") == ["[base]"])
    page.all("summary")[0].click()
    for width, scheme in itertools.product((1280, 390), ("dark", "light")):
        show(page.browser, width, scheme)
        assert violations(page.browser) == []
