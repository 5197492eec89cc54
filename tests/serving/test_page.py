"""The page in a browser: what is typed is translated, a domain is forced, and the bars say what the gates chose."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import needs_axe, needs_browser, open_browser, show, violations
from tests.serving.fake_server import TIMEOUT, Served, served

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
def page(browser: Any) -> Iterator[Page]:
    with served() as service:
        yield Page(browser, service)
    # Neither the policy for content nor a script complained.
    assert browser.get_log("browser") == []


def test_one_types_forces_a_domain_and_reads_the_bars(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.type("law of the sea", Keys.CONTROL + Keys.ENTER)  # the text has the focus from the start
    page.wait(lambda: page.texts(".card h2") == ["Gates", "Base model"])
    assert page.texts(".card p:first-of-type") == ["sea the of law", "sea the of law [base]"]
    assert page.texts("mark") == ["[base]"]
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
    assert page.texts("[data-route=med] .hint") == ["1 word differs from Gates"]
    assert page.texts(".forced .domain") == ["med\nforced"]
    # Nothing is wider than a phone.
    assert page.browser.execute_script("return document.documentElement.scrollWidth") == 390


@needs_axe
def test_the_page_is_accessible(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.type("law of the sea", Keys.CONTROL + Keys.ENTER)
    page.wait(lambda: page.texts("mark") == ["[base]"])
    page.all("summary")[0].click()
    for width, scheme in itertools.product((1280, 390), ("dark", "light")):
        show(page.browser, width, scheme)
        assert violations(page.browser) == []
