"""Text from corpora, configurations and records as Markdown that shows it unchanged."""

from __future__ import annotations

import re

# Control characters, and those that force a direction upon text. Joiners and direction marks belong to scripts.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def escape(text: str) -> str:
    """Escape text for Markdown, on one line; control characters become U+FFFD."""
    text = _CONTROLS.sub("\ufffd", " ".join(text.split()))
    text = re.sub(r"[\\`*\[\]|~$]|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])", r"\\\g<0>", text)
    # Within words, underscores are text.
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)
    return re.sub(r"^(#|>|=|[-+](?=[-\s]|$)|\d+(?=[.)](\s|$)))", _escape_start, text)


def _escape_start(match: re.Match[str]) -> str:
    start = match[0]
    return f"\\{start}" if not start[0].isdigit() else f"{start}\\"
