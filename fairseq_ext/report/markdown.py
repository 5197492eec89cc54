"""Text from corpora, configurations and records as Markdown that shows it unchanged."""

from __future__ import annotations

import re

from fairseq_ext.report.page import visible


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    text = visible(" ".join(text.split()))
    text = re.sub(r"[\\`*\[\]<>|&~$]", r"\\\g<0>", text)
    # Within words, underscores are text.
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)
    return re.sub(r"^(#|[-+](?=\s)|=|\d+(?=[.)]\s))", _escape_start, text)


def _escape_start(match: re.Match[str]) -> str:
    start = match[0]
    return f"\\{start}" if not start[0].isdigit() else f"{start}\\"
