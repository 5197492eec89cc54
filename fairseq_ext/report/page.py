"""What every page for people shares: its frame, colours and way to write numbers.

A page is one file that fetches nothing and runs no script, so that it can be sent around. Text from corpora,
configurations and records is escaped.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING


def signed(number: float) -> str:
    """A difference to a decimal with a true minus sign; nothing is no sign."""
    rounded = round(number, 1)
    return "0.0" if rounded == 0 else f"{rounded:+.1f}".replace("-", "−")


if TYPE_CHECKING:
    import jinja2

NUM_COLOURS = 10

# Ten colours to tell things apart (f0 to f9). To normal and to each kind of colour-blind vision (Machado et al. 2009),
# any two are at least 0.1 apart in OKLab, 0.08 in the dark scheme.
LIGHT = {
    **{"page": "#f4f5f7", "card": "#ffffff", "ink": "#1b2027", "soft": "#5a6472", "line": "#dfe3e8"},
    **{"faint": "#f0f2f5", "after": "#2c6fb0", "before": "#bcc4ce", "heat": "44 111 176"},
    **{"f0": "#697daa", "f1": "#420665", "f2": "#abcbcd", "f3": "#326c00", "f4": "#e0c427"},
    **{"f5": "#652d38", "f6": "#50b782", "f7": "#bd4663", "f8": "#a08405", "f9": "#8f228b"},
}
DARK = {
    **{"page": "#0f1216", "card": "#181c22", "ink": "#e6e9ed", "soft": "#9ba6b3", "line": "#2d343d"},
    **{"faint": "#20262d", "after": "#63a5e6", "before": "#505a66", "heat": "99 165 230"},
    **{"f0": "#83a1ce", "f1": "#6c4cc8", "f2": "#d0d5d5", "f3": "#7f7a2f", "f4": "#fcce54"},
    **{"f5": "#9c486f", "f6": "#89c895", "f7": "#e2628f", "f8": "#cb991f", "f9": "#b366ec"},
}

# Control characters, and those that force a direction upon text. (Joiners and direction marks belong to scripts.)
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def make_environment(folder: Path) -> jinja2.Environment:
    """Templates of a folder, which may extend ``page.html.jinja``; what they print is escaped."""
    # Imported here because every command of the package would wait for it.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"light": LIGHT, "dark": DARK, "num_colours": NUM_COLOURS}
    environment.filters |= {"thousands": "{:,}".format, "visible": visible}
    return environment


def visible(text: str) -> str:
    """Text with a mark in place of every control character."""
    return _CONTROLS.sub("\ufffd", text)
