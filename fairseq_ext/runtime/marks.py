"""Marks in a text: tags, which a model does not see, and placeholders, which it does and has to repeat.

A tag is one private character of Unicode, which says whether it opens, closes or stands alone; a placeholder stands
between two others.
"""

from __future__ import annotations

import re

MOST_TAGS = 0x4000  # of a text
OPEN, CLOSE, ALONE = ((chr(0xF0000 + kind * MOST_TAGS), chr(0xF0000 + (kind + 1) * MOST_TAGS - 1)) for kind in range(3))
_BEGIN, _END = "\U000fc000", "\U000fc001"  # of a placeholder
PRIVATE = f"[{OPEN[0]}-{_END}]"
# A placeholder, a tag, or a stray character.
MARK = re.compile(f"{_BEGIN}([^{_BEGIN}{_END}]*){_END}|([{OPEN[0]}-{ALONE[1]}])|{PRIVATE}")


def mark(kind: tuple[str, str], number: int) -> str:
    """The mark of a tag; that which closes has the number of that which opens."""
    return chr(ord(kind[0]) + number)


def is_alone(mark: str) -> bool:
    """Whether a mark, or no mark, is of a tag that stands alone."""
    return ALONE[0] <= mark <= ALONE[1]


def keep(placeholder: str) -> str:
    """A placeholder, marked as such."""
    return f"{_BEGIN}{placeholder}{_END}"


def without_marks(text: str) -> str:
    """A text as its reader sees it: placeholders, but no tags."""
    return MARK.sub(lambda found: found[1] or "", text)
