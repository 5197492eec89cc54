"""The page in a browser: what is typed is translated, a domain is forced, and the bars say what the gates chose."""

from __future__ import annotations

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

    def bars(self) -> dict[str, int]:
        return {each.get_attribute("aria-label"): int(each.get_attribute("aria-valuenow")) for each in self.all(".bar")}


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
    page.wait(lambda: page.texts(".card h2") == ["Gates", "MIX, no adapters"])
    assert page.texts(".card p:first-of-type") == ["sea the of law", "sea the of law [base]"]
    assert page.texts("mark") == ["[base]"]
    assert page.bars() == {"law": 70, "med": 15, "sub": 15}
    assert page.all(".layers")[0].get_attribute("aria-label") == "encoder, layer by layer: 70\xa0%, 70\xa0%, 70\xa0%"
    assert [len(each.find_elements("css selector", "i")) for each in page.all(".layers")] == [3] * 6
    assert page.texts(".word > span") == ["sea", "the", "of", "law"]
    widths = [each.size["width"] for each in page.all(".bar span")]
    assert widths[0] > 4 * widths[1]

    page.type(Keys.TAB)  # to the routes, among which arrows choose
    page.type(*[Keys.ARROW_RIGHT] * 4)
    page.wait(lambda: page.texts(".card h2") == ["Gates", "med", "MIX, no adapters"])
    assert page.texts("[data-route=med] mark") == ["[med]"]
    assert page.texts("[data-route=med] .hint") == ["1 word differs from Gates"]
    assert page.texts(".forced .domain") == ["med\nforced"]
    assert page.bars() == {"law": 70, "med": 15, "sub": 15}
    # Nothing is wider than a phone.
    assert page.browser.execute_script("return document.documentElement.scrollWidth") == 390


def test_lines_are_texts_whose_bars_are_read_one_by_one(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.type("law", Keys.ENTER, Keys.ENTER, "med <b>x</b>", Keys.CONTROL + Keys.ENTER)
    page.wait(lambda: page.texts("[data-route=gates] p") == ["law", "<b>x</b> med"])
    assert page.bars() == {"law": 42, "med": 42, "sub": 15} or page.bars() == {"law": 43, "med": 43, "sub": 15}
    assert page.texts("#words-note") == ["Choose a line to see the decoder’s weights at each of its words."]
    assert not page.all("#words")[0].is_displayed()
    page.all("#line option")[2].click()
    assert page.bars() == {"law": 15, "med": 70, "sub": 15}
    assert page.texts(".word > span") == ["<b>x</b>", "med"]


def test_words_have_bars_and_numbers_of_their_own(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.type("subs mud lots " * 9, Keys.CONTROL + Keys.ENTER)
    page.wait(lambda: len(page.texts(".word > span")) == 27)
    assert page.texts(".word > span")[:3] == ["lots", "mud", "subs"]
    # Three domains under each word, and as many bars as it has pieces.
    heights = """return [...arguments[0].querySelectorAll(".small-bars")].map((domain) => (
        [...domain.querySelectorAll("i")].map((bar) => bar.style.height)))"""
    bars = [page.browser.execute_script(heights, word) for word in page.all(".word")[:2]]
    assert bars == [[["70%", "70%"], ["15%", "15%"], ["15%", "15%"]], [["15%"], ["70%"], ["15%"]]]
    assert page.all(".word:first-child i")[0].find_element("xpath", "..").get_attribute("title") == "▁lot, law: 70\xa0%"
    # Every line of words begins with the names of the domains.
    bottoms = "[...document.querySelectorAll('.word')].map((word) => word.getBoundingClientRect().bottom)"
    lines = f"return new Set({bottoms}).size"
    assert len(page.all(".labels")) == page.browser.execute_script(lines) > 1
    assert page.texts(".labels")[0].split() == ["law", "med", "sub"]
    assert page.browser.execute_script("return document.documentElement.scrollWidth") == 390
    show(page.browser, 1280, "light")
    page.wait(lambda: len(page.all(".labels")) == page.browser.execute_script(lines))
    show(page.browser, 390, "light")
    # The numbers are opened with the keyboard.
    assert not page.all("#numbers-list li")[0].is_displayed()
    page.browser.execute_script("document.querySelector('summary').focus()")
    page.type(Keys.ENTER)
    page.wait(lambda: page.all("#numbers-list li")[0].is_displayed())
    assert page.texts("#numbers-list li")[0] == "lots: law 70\xa0%, med 15\xa0%, sub 15\xa0%"


def test_what_is_refused_is_said_and_the_next_text_goes_on(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.type("endless", Keys.CONTROL + Keys.ENTER)
    page.wait(lambda: page.texts("#error") == ["texts[0]: too long"])
    page.type(Keys.CONTROL + "a", Keys.NULL, "a b", Keys.CONTROL + Keys.ENTER)
    page.wait(lambda: page.texts("[data-route=gates] p") == ["b a"])
    assert page.texts("#error") == [""]
    assert [each["message"] for each in page.browser.get_log("browser") if "422" not in each["message"]] == []


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_left_out(page: Page, scheme: str) -> None:
    from selenium.webdriver.common.keys import Keys

    page.type("law of the sea", Keys.CONTROL + Keys.ENTER)
    page.wait(lambda: page.texts("mark") == ["[base]"])
    page.all("summary")[0].click()
    for width in (390, 1280):
        show(page.browser, width, scheme)
        assert violations(page.browser) == []
    show(page.browser, 390, "light")
