"""A text in pieces: what is translated, and what stands between and is kept, such as tags and placeholders.

The words between two placeholders are translated without the rest of the sentence. That keeps every tag and placeholder
once and in order; a translator that sees the whole sentence and keeps them would do better.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_REST = r"""(?:[^<>"']|"[^"]*"|'[^']*')*"""
# Comments and the like; elements whose content is no text, with XLIFF's and TMX' for the codes of another format; tags.
_TAG = rf"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>
    |<(?P<raw>script|style|ph|bpt|ept|it|ut)\b{_REST}(?<!/)>.*?</(?P=raw)\s*>|<[!/]?[A-Za-z]{_REST}>"""
_PLACEHOLDER = re.compile(
    r"""%(?:\(\w+\)|\d+\$)?[-#0+]*\d*(?:\.\d+)?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcrsan@]\b  # %s %(name)s %1$.2f
    |%L?\d+\b  # Qt's %1
    |\$?\{[\w.:!,-]*\}|\{\{.*?\}\}  # {0} {name:>3} ${x} {{x}}
    |\[X\d+X\]  # what Weblate sends for a placeholder
    |https?://[^\s<>"]+[^\s<>".,;:!?)\]]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+
    |[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+""",
    re.VERBOSE,
)
MARKUP = re.compile(_TAG, re.DOTALL | re.IGNORECASE | re.VERBOSE)
_EDGES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)


@dataclass(frozen=True)
class Pieces:
    """A text cut up.

    Attributes:
        parts: what is kept at even places, what is translated at odd ones.
        is_markup: whether the text is written as HTML and XML have it, ``&`` as ``&amp;``.
    """

    parts: tuple[str, ...]
    is_markup: bool

    @property
    def texts(self) -> list[str]:
        """What is to be translated."""
        return list(self.parts[1::2])

    def join(self, translations: Sequence[str]) -> str:
        """The text with its translations."""
        parts = list(self.parts)
        parts[1::2] = [html.escape(each, quote=False) for each in translations] if self.is_markup else translations
        return "".join(parts)


def split(text: str, *, markup: bool = False) -> Pieces:
    """Cut a text at placeholders and line breaks.

    Args:
        text: of any length.
        markup: whether it is HTML, and cut at tags, too.
    """
    parts, kept = [], ""
    for piece, is_text in _pieces(text, markup=markup):
        if is_text and any(map(str.isalpha, piece)):
            before, words, after = _EDGES.fullmatch(piece).groups()  # type: ignore[union-attr]
            parts += [kept + before, words]
            kept = after
        else:
            kept += html.escape(piece, quote=False) if is_text and markup else piece
    return Pieces((*parts, kept), markup)


def _pieces(text: str, *, markup: bool) -> Iterator[tuple[str, bool]]:
    for outer, is_text in cut(MARKUP, text) if markup else [(text, True)]:
        if not is_text:
            yield outer, False
            continue
        for inner, is_words in cut(_PLACEHOLDER, html.unescape(outer) if markup else outer):
            yield (html.escape(inner, quote=False) if markup and not is_words else inner), is_words


def cut(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, bool]]:
    """Yield what matches a pattern, with False, and what is between, with True."""
    start = 0
    for found in pattern.finditer(text):
        yield text[start : found.start()], True
        yield found[0], False
        start = found.end()
    yield text[start:], True
