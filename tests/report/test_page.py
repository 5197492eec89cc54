"""The colours of every page are told from their ground, whatever the scheme."""

from __future__ import annotations

import numpy as np
import pytest

from fairseq_ext.report.page import DARK, LIGHT, NUM_COLOURS


def rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)])


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """Of two colours (WCAG 2.2)."""
    light = [np.where(each <= 0.04045, each / 12.92, ((each + 0.055) / 1.055) ** 2.4) for each in (one, other)]
    dark, bright = sorted(float(each @ [0.2126, 0.7152, 0.0722]) for each in light)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_what_is_drawn_and_what_is_written_stands_out(scheme: dict[str, str]) -> None:
    found = {name: rgb(value) for name, value in scheme.items() if value.startswith("#")}
    for name in ("before", "after", *(f"f{number}" for number in range(NUM_COLOURS))):
        assert contrast(found[name], found["card"]) >= 3, name
    for text in ("ink", "soft", "after"):
        for ground in ("page", "card", "faint"):
            assert contrast(found[text], found[ground]) >= 4.5, (text, ground)
    assert contrast(found["ink"], found["mark"]) >= 4.5
