"""Split a text into parts to translate and parts to keep, and mark tags and placeholders.

The model does not see tags; it sees placeholders and has to repeat them. A tag is marked by one private-use Unicode
character, which encodes whether the tag opens, closes or stands alone. A placeholder is enclosed in two other such
characters.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairseq_ext.runtime.markup import is_empty, is_end, name_of

MOST_TAGS = 0x4000  # per text
OPEN, CLOSE, ALONE = ((chr(0xF0000 + kind * MOST_TAGS), chr(0xF0000 + (kind + 1) * MOST_TAGS - 1)) for kind in range(3))
_BEGIN, _END = "\U000fc000", "\U000fc001"  # around a placeholder
PRIVATE = f"[{OPEN[0]}-{_END}]"
# A placeholder, a tag, or a stray private-use character.
MARK = re.compile(f"{_BEGIN}([^{_BEGIN}{_END}]*){_END}|([{OPEN[0]}-{ALONE[1]}])|{PRIVATE}")
_REST = r"""(?:[^<>"']|"[^"]*"|'[^']*')*"""
# Comments and similar; elements without translatable content, including the inline codes of XLIFF and TMX; tags.
_TAG = rf"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>
    |<(?P<raw>script|style|ph|bpt|ept|it|ut)\b{_REST}(?<!/)>.*?</(?P=raw)\s*>|<[!/]?[A-Za-z]{_REST}>|{PRIVATE}"""
MARKUP = re.compile(_TAG, re.DOTALL | re.IGNORECASE | re.VERBOSE)
PLACEHOLDER = re.compile(
    r"""%\(\w+\)[-#0+]*\d*(?:\.\d+)?[diouxXeEfFgGcrsa]  # %(name)s
    |%(?:\d+\$)?[-#0+]*\d*(?:\.\d+)?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcrsan@YymBbHIMSpAjZ]\b  # %s %1$.2f %Y-%m
    |%L?\d+\b  # Qt's %1
    |\$?\{[\w.:!,-]*\}|\{\{.*?\}\}  # {0} {name:>3} ${x} {{x}}
    |\[X\d+X\]  # Weblate's stand-in for a placeholder
    |https?://[^\s<>"]+[^\s<>".,;:!?)\]]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+""",
    re.VERBOSE,
)
_BREAK = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
# HTML tags that end a sentence. All other tags are inline.
_BLOCK = re.compile(
    r"""address|article|aside|audio|base|blockquote|body|br|button|canvas|caption|col|colgroup|dd|details|dialog|div|dl|dt
    |fieldset|figcaption|figure|footer|form|h[1-6]|head|header|hr|html|iframe|input|legend|li|link|main|menu|meta|nav
    |object|ol|optgroup|option|p|pre|script|section|select|style|summary|table|tbody|td|template|textarea|tfoot|th|thead
    |title|tr|ul|video""",
    re.VERBOSE | re.IGNORECASE,
)
# Elements of XLIFF and TMX that stand for the opening and closing half of a pair of tags.
_OPENING, _CLOSING = ("bpt", "bx", "sc"), ("ept", "ex", "ec")
_EDGES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)


def mark(kind: tuple[str, str], number: int) -> str:
    """Return the mark of a tag. The closing mark of a pair has the number of the opening one."""
    return chr(ord(kind[0]) + number)


def is_alone(mark: str) -> bool:
    """Return whether a mark belongs to a tag that stands alone. The empty string is no mark."""
    return ALONE[0] <= mark <= ALONE[1]


def keep(placeholder: str) -> str:
    """Mark a placeholder."""
    return f"{_BEGIN}{placeholder}{_END}"


def without_marks(text: str) -> str:
    """Remove the marks of tags, and keep placeholders without their marks."""
    return MARK.sub(lambda found: found[1] or "", text)


@dataclass(frozen=True)
class Pieces:
    """A text, split into parts to keep and parts to translate."""

    parts: tuple[str, ...]  # even indices: parts to keep; odd indices: texts to translate, with marks
    tags: tuple[dict[str, str], ...]  # tags of each text to translate, by mark
    is_markup: bool  # whether the text is HTML or XML, where & is written as &amp;

    @property
    def texts(self) -> list[str]:
        """Texts to translate."""
        return list(self.parts[1::2])

    def join(self, translations: Sequence[str]) -> str:
        """Return the whole text with the translations inserted."""
        parts = list(self.parts)
        parts[1::2] = [self._written(text, tags) for text, tags in zip(translations, self.tags, strict=True)]
        return "".join(parts)

    def _written(self, text: str, tags: dict[str, str]) -> str:
        text = html.escape(text, quote=False) if self.is_markup else text
        return re.sub(PRIVATE, lambda mark: tags.get(mark[0], ""), text)


def split(text: str, *, markup: bool = False) -> Pieces:
    """Split a text at line breaks and at tags that end a sentence.

    Args:
        markup: whether the text is HTML or XML, where ``&`` is written as ``&amp;``.
    """
    parts, tags, kept = [], [], ""
    for run, end in runs(text):
        before, words, after, own = _words_of(run, markup=markup)
        if words:
            parts += [kept + before, words]
            tags.append(own)
            kept = ""
        kept += after + end
    return Pieces((*parts, kept), tuple(tags), markup)


# Text and tags, each with a flag that is True for text.
_Run = list[tuple[str, bool]]


def runs(text: str) -> Iterator[tuple[_Run, str]]:
    """Yield each run of text and inline tags, and the tag or line break that ends it."""
    run: _Run = []
    for part, is_text in cut(MARKUP, text):
        for inner, goes_on in cut(_BREAK, part) if is_text else [(part, _is_inline(part))]:
            if goes_on and len(run) < MOST_TAGS:
                run.append((inner, is_text))
            else:
                yield run, inner
                run = []
    yield run, ""


def _is_inline(tag: str) -> bool:
    return not _BLOCK.fullmatch(name_of(tag)) and not tag.lower().startswith("<!doctype")


def _words_of(run: _Run, *, markup: bool) -> tuple[str, str, str, dict[str, str]]:
    """Return the text before, the text to translate, the text after, and the tags by mark."""
    marks = _marks(run)
    begin, end = 0, len(run)
    while begin < end:  # tags and blanks at the edges need no alignment with the translation
        first, last = marks[begin], marks[end - 1]
        if is_alone(first) or not (first or run[begin][0].strip()):
            begin += 1
        elif is_alone(last) or not (last or run[end - 1][0].strip()):
            end -= 1
        elif first and last and ord(last) - ord(first) == MOST_TAGS:
            begin, end = begin + 1, end - 1
        else:
            break
    original = [part for part, _ in run]
    texts = [_protected(part, markup=markup) if is_text else "" for part, is_text in run[begin:end]]
    if not any(map(str.isalpha, MARK.sub("", "".join(texts)))):
        return "", "", "".join(original), {}
    marked = "".join(text or mark for text, mark in zip(texts, marks[begin:end], strict=True))
    before, words, after = _EDGES.fullmatch(marked).groups()  # type: ignore[union-attr]
    tags = {mark: tag for mark, tag in zip(marks, original, strict=True) if mark}
    return "".join(original[:begin]) + before, words, after + "".join(original[end:]), tags


def _protected(text: str, *, markup: bool) -> str:
    text = html.unescape(text) if markup else text
    return "".join(part if is_text else keep(part) for part, is_text in cut(PLACEHOLDER, text))


def _marks(run: _Run) -> list[str]:
    """Return the mark of each tag, empty for text. Properly nested pairs get opening and closing marks."""
    marks = [""] * len(run)
    waiting: list[tuple[str, int]] = []  # name and index of open tags
    for place, (tag, is_text) in enumerate(run):
        if is_text:
            continue
        name = name_of(tag).lower()
        marks[place] = mark(ALONE, place)
        if name in _CLOSING or is_end(tag):
            wanted = _OPENING if name in _CLOSING else (name,)
            pairs = [number for number, (other, _) in enumerate(waiting) if other in wanted]
            if pairs:
                opened = waiting[pairs[-1]][1]
                del waiting[pairs[-1] :]
                marks[opened], marks[place] = mark(OPEN, opened), mark(CLOSE, opened)
        elif name in _OPENING or (name and not is_empty(tag) and "</" not in tag):
            waiting.append((name, place))
    return marks


def cut(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, bool]]:
    """Yield the matches of a pattern with False, and the text between them with True."""
    start = 0
    for found in pattern.finditer(text):
        yield text[start : found.start()], True
        yield found[0], False
        start = found.end()
    yield text[start:], True
