"""What every page for people shares: its frame, colours and way to write numbers.

A page is one file that fetches nothing, so that it can be sent around. It runs no script but ``page.js``, which the
policy in its head knows by its hash, and says the same without it. Text from corpora, configurations and records
is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

GENERATOR = "fairseq_ext"  # by which pages are known
NUM_COLOURS = 10

# Ten colours to tell things apart (f0 to f9). To normal and to each kind of colour-blind vision (Machado et al. 2009),
# any two are at least 0.1 apart in OKLab. What is text has a contrast of 4.5 and more, what is drawn one of 3.
LIGHT = {
    **{"page": "#f4f5f7", "card": "#ffffff", "ink": "#1b2027", "soft": "#5a6472", "line": "#dfe3e8"},
    **{"faint": "#f0f2f5", "after": "#2c6fb0", "before": "#87919e", "mark": "#fbe7b2", "heat": "44 111 176"},
    **{"f0": "#005cbb", "f1": "#fd5d00", "f2": "#67004f", "f3": "#119fc5", "f4": "#855400"},
    **{"f5": "#9367fa", "f6": "#b41871", "f7": "#2d00a0", "f8": "#433800", "f9": "#b27a7f"},
}
DARK = {
    **{"page": "#0f1216", "card": "#181c22", "ink": "#e6e9ed", "soft": "#9ba6b3", "line": "#2d343d"},
    **{"faint": "#20262d", "after": "#63a5e6", "before": "#727d8b", "mark": "#5a4a1c", "heat": "99 165 230"},
    **{"f0": "#27b9ff", "f1": "#ff73bd", "f2": "#e3f652", "f3": "#5a70fd", "f4": "#ab8669"},
    **{"f5": "#00ffff", "f6": "#347704", "f7": "#b72d97", "f8": "#a2b805", "f9": "#fabd9d"},
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
    script = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment.globals |= {"light": LIGHT, "dark": DARK, "num_colours": NUM_COLOURS}
    environment.globals |= {"script": script, "script_hash": digest, "generator": GENERATOR}
    environment.filters |= {"thousands": "{:,}".format, "visible": visible}
    return environment


def visible(text: str) -> str:
    """Text with a mark in place of every control character."""
    return _CONTROLS.sub("\ufffd", text)
