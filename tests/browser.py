"""Chromium without a window, as Debian's packages chromium and chromium-driver have it, for tests of pages."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
FLAGS += ("--disable-background-networking", "--disable-component-update")
TIMEOUT = 600  # seconds; on a busy machine, axe takes its time

needs_browser = pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver on the PATH")
needs_axe = pytest.mark.skipif(
    find_spec("axe_core_python") is None, reason="needs axe-core-python (requirements-dev.txt)"
)


@contextmanager
def open_browser(folder: Path, width: int | None = None) -> Iterator[Any]:
    """A browser with its files in a folder, as wide as a phone of that width if one is given."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    if width is not None:
        metrics = {"width": width, "height": 800, "touch": False}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    browser.set_script_timeout(TIMEOUT)
    try:
        yield browser
    finally:
        browser.quit()


def show(browser: Any, width: int, scheme: str) -> None:
    """Make the browser a screen of so many pixels, light or dark."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})


def violations(browser: Any, *rules: str) -> list[str]:
    """What axe-core has against the page that is open, by some rules or by all."""
    if not browser.execute_script("return typeof axe !== 'undefined'"):
        browser.execute_script(resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    options = json.dumps({"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})})
    run = f"axe.run({options}).then(done, (error) => done({{error: String(error)}}))"
    found = browser.execute_async_script(f"const done = arguments[arguments.length - 1]; {run}")
    assert "error" not in found, found
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]
