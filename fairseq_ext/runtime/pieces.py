"""Split a text into parts to translate and parts to keep, and mark tags and placeholders.

The model does not see tags; it sees placeholders and has to repeat them. A tag is marked by one private-use Unicode
character, which encodes whether the tag opens, closes or stands alone. A placeholder is enclosed in two other such
characters, and so is a no-break space, which models do not write.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairseq_ext.corpora.placeholders import ANY, message_syntax
from fairseq_ext.corpora.placeholders import parts as placeholder_parts
from fairseq_ext.runtime.markup import is_empty, is_end, name_of

MOST_TAGS = 0x4000  # per text
OPEN, CLOSE, ALONE = ((chr(0xF0000 + kind * MOST_TAGS), chr(0xF0000 + (kind + 1) * MOST_TAGS - 1)) for kind in range(3))
_BEGIN, _END = "\U000fc000", "\U000fc001"  # around a placeholder
PRIVATE = f"[{OPEN[0]}-{_END}]"
_PLACEHOLDER = re.compile(f"{_BEGIN}[^{_BEGIN}{_END}]*{_END}")
_STOWED = range(0xFD000, 0xFFFFE)
# A placeholder, a tag, or a stray private-use character.
MARK = re.compile(f"{_BEGIN}([^{_BEGIN}{_END}]*){_END}|([{OPEN[0]}-{ALONE[1]}])|{PRIVATE}")
_REST = r"""(?:[^<>"']|"[^"]*"|'[^']*')*"""
# Comments and similar, up to the end of the text if they are not closed; elements without translatable content,
# including the inline codes of XLIFF and TMX; tags, also numbered as React's and escaped. Ruby's %<name>s is none, and
# domain tags are words, which the vocabulary refuses. The bound keeps the time linear.
_TAG = rf"""<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?[a-z].*?(?:\?>|\Z)
    |<(?P<raw>script|style)\b{_REST}(?<!/)>.*?(?:</(?P=raw)\s*>|\Z)
    |<(?P<code>ph|bpt|ept|it|ut)\b{_REST}(?<!/)>.{{0,5000}}?</(?P=code)\s*>
    |(?<!%)<(?!domain:|PRI\w+>)[!/]?[a-z]{_REST}>|</?\d++\s*+/?>|&lt;/?[a-z](?:[^<>&]|&(?![lg]t;))*+&gt;|{PRIVATE}"""
MARKUP = re.compile(_TAG, re.DOTALL | re.IGNORECASE | re.VERBOSE)
NO_BREAK = re.compile("[\u00a0\u202f]")
# A bar separates the plural forms of Symfony and Laravel.
_BREAK = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029|]+")
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


def stow(text: str) -> tuple[str, list[str]]:
    """Replace each placeholder by one private-use character, which :func:`unstow` replaces by the placeholder.

    Normalising and cutting the text leaves such characters as they are.
    """
    held = [each[0] for each in _PLACEHOLDER.finditer(text)][: len(_STOWED)]
    names = iter(_STOWED)
    return _PLACEHOLDER.sub(lambda _: chr(next(names)), text, len(held)) if held else text, held


def unstow(text: str, held: Sequence[str]) -> str:
    """Undo :func:`stow` in a part of a text."""
    return text.translate(dict(zip(_STOWED, held, strict=False))) if held else text


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


def split(text: str, *, markup: bool = False, dialect: str = ANY) -> Pieces:
    """Split a text at line breaks, at tags that end a sentence, and at the syntax of ICU messages.

    Args:
        markup: whether the text is HTML or XML, where ``&`` is written as ``&amp;``.
        dialect: one of :data:`fairseq_ext.corpora.placeholders.DIALECTS`.
    """
    parts, tags, kept = [], [], ""
    for run, end in runs(text, dialect):
        before, words, after, own = _words_of(run, markup, dialect)
        if words:
            parts += [kept + before, words]
            tags.append(own)
            kept = ""
        kept += after + end
    return Pieces((*parts, kept), tuple(tags), markup)


def between_marks(text: str) -> Pieces:
    """Split a text with marks at all but no-break spaces. Marks of placeholders are removed, those of tags are kept."""
    parts, kept = [], ""
    for part, is_text in cut(re.compile(f"(?!{_BEGIN}{NO_BREAK.pattern})(?:{MARK.pattern})"), text):
        before, words, after = _EDGES.fullmatch(part).groups()  # type: ignore[union-attr]
        if is_text and any(map(str.isalpha, words)):
            parts += [kept + before, words]
            kept = after
        else:
            kept += re.sub(f"[{_BEGIN}{_END}]", "", part)
    return Pieces((*parts, kept), ({},) * (len(parts) // 2), is_markup=False)


# Text and tags, each with a flag that is True for text.
_Run = list[tuple[str, bool]]


def runs(text: str, dialect: str = ANY) -> Iterator[tuple[_Run, str]]:
    """Yield each run of text and inline tags, and the tag, line break or syntax of a message that ends it."""
    run: _Run = []
    breaks, start = _breaks(text, dialect), 0
    for part, is_text in cut(MARKUP, text):
        for inner, goes_on in _cut_at(breaks, part, start) if is_text else [(part, _is_inline(part))]:
            if goes_on and len(run) < MOST_TAGS:
                run.append((inner, is_text))
            else:
                yield run, inner
                run = []
        start += len(part)
    yield run, ""


def _breaks(text: str, dialect: str) -> list[tuple[int, int]]:
    """Return the spans outside of tags and placeholders that end a sentence, last first."""
    text = MARKUP.sub(lambda tag: "\0" * len(tag[0]), text)
    spans = message_syntax(text)
    branches = [place for span in ((0, 0), *spans, (len(text), len(text))) for place in span]
    for begin, end in zip(branches[1::2], branches[2::2], strict=False):
        for number, part in enumerate(placeholder_parts(text[begin:end], dialect)):
            spans += [(begin + each.start(), begin + each.end()) for each in _BREAK.finditer(part) if not number % 2]
            begin += len(part)
    return sorted(spans, reverse=True)


def _cut_at(breaks: list[tuple[int, int]], part: str, start: int) -> Iterator[tuple[str, bool]]:
    """Yield the text between breaks with True and breaks with False, and remove these breaks from the list.

    Args:
        start: place of the part in the whole text.
    """
    end = 0
    while breaks and breaks[-1][0] < start + len(part):
        first, last = breaks.pop()
        yield part[end : first - start], True
        end = last - start
        yield part[first - start : end], False
    yield part[end:], True


def _is_inline(tag: str) -> bool:
    return not _BLOCK.fullmatch(name_of(_plain(tag))) and not tag.lower().startswith("<!doctype")


def _plain(tag: str) -> str:
    return html.unescape(tag) if tag.startswith("&") else tag


def _words_of(run: _Run, markup: bool, dialect: str) -> tuple[str, str, str, dict[str, str]]:
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
    texts = [_protected(part, markup, dialect) if is_text else "" for part, is_text in run[begin:end]]
    if not any(map(str.isalpha, MARK.sub("", "".join(texts)))):
        return "", "", "".join(original), {}
    marked = "".join(text or mark for text, mark in zip(texts, marks[begin:end], strict=True))
    before, words, after = _EDGES.fullmatch(marked).groups()  # type: ignore[union-attr]
    tags = {mark: tag for mark, tag in zip(marks, original, strict=True) if mark}
    return "".join(original[:begin]) + before, words, after + "".join(original[end:]), tags


def _protected(text: str, markup: bool, dialect: str) -> str:
    parts = placeholder_parts(html.unescape(text) if markup else text, dialect)
    parts[::2] = [NO_BREAK.sub(lambda blank: keep(blank[0]), part) for part in parts[::2]]
    parts[1::2] = map(keep, parts[1::2])
    return "".join(parts).replace(_END + _BEGIN, "")  # %d%% stays together


def _marks(run: _Run) -> list[str]:
    """Return the mark of each tag, empty for text. Properly nested pairs get opening and closing marks."""
    marks = [""] * len(run)
    waiting: list[tuple[str, int]] = []  # name and index of open tags
    for place, (tag, is_text) in enumerate(run):
        if is_text:
            continue
        tag = _plain(tag)
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
