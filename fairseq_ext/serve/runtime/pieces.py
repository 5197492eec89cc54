"""Split a text into parts to translate and parts to keep, and mark tags and placeholders.

The model does not see tags; it sees placeholders and has to repeat them. A tag is marked by one private-use Unicode
character, which encodes whether the tag opens, closes or stands alone. A placeholder is enclosed in two other such
characters, and so is a no-break space, which models do not write.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_ext.serve.runtime.tags import MOST_TAGS, PLAIN, PREFORMATTED_XML, XML, Run, Syntax, cut, pair_up, runs
from fairseq_ext.text.placeholders import ANY
from fairseq_ext.text.placeholders import parts as placeholder_parts

OPEN, CLOSE, ALONE = ((chr(0xF0000 + kind * MOST_TAGS), chr(0xF0000 + (kind + 1) * MOST_TAGS - 1)) for kind in range(3))
_BEGIN, _END = "\U000fc000", "\U000fc001"  # around a placeholder
PRIVATE = f"[{OPEN[0]}-{_END}]"
# A placeholder, a tag, or a stray private-use character.
MARK = re.compile(f"{_BEGIN}([^{_BEGIN}{_END}]*){_END}|([{OPEN[0]}-{ALONE[1]}])|{PRIVATE}")
_PLACEHOLDER = re.compile(f"{_BEGIN}[^{_BEGIN}{_END}]*{_END}")
_STOWED = range(0xFD000, 0xFFFFE)
NO_BREAK = re.compile("[\u00a0\u202f]|&nbsp;|&#160;|&#[xX][aA]0;")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)", re.DOTALL)
_LINE_BREAK = re.compile(r"(?<![ \t\f])[ \t\f]*+[\r\n][ \t\r\n\f]*+")


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


def stow(text: str) -> tuple[str, dict[int, str]]:
    """Replace each placeholder by one private-use character, which ``str.translate`` replaces by the placeholder.

    Normalising and cutting the text leaves such characters as they are.
    """
    held = dict(zip(_STOWED, (each[0] for each in _PLACEHOLDER.finditer(text)), strict=False))
    names = iter(held)
    return _PLACEHOLDER.sub(lambda _: chr(next(names)), text, len(held)) if held else text, held


@dataclass(frozen=True)
class Pieces:
    """A text, split into parts to keep and parts to translate."""

    parts: tuple[str, ...]  # even indices: parts to keep; odd indices: texts to translate, with marks
    tags: tuple[dict[str, str], ...]  # tags of each text to translate, by mark
    is_markup: bool  # whether the text is HTML or XML, where & is written as &amp;
    dialect: str = ANY  # dialect of placeholders

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


def split(text: str, syntax: Syntax = PLAIN, dialect: str = ANY) -> Pieces:
    """Split a text at line breaks, at tags that end a sentence, and at the syntax of ICU messages.

    Args:
        dialect: dialect of placeholders, one of :data:`fairseq_ext.text.placeholders.DIALECTS`.
    """
    if syntax in (XML, PREFORMATTED_XML):
        text = _CDATA.sub(lambda found: html.escape(found[1], quote=False), text)
    parts, tags, kept = [], [], ""
    for run, end in runs(text, syntax, dialect):
        before, words, after, own = _words_of(run, syntax, dialect)
        if words:
            parts += [kept + before, words]
            tags.append(own)
            kept = ""
        kept += after + end.raw
    return Pieces((*parts, kept), tuple(tags), syntax.is_escaped, dialect)


def between_marks(text: str) -> Pieces:
    """Split a text with marks at all but no-break spaces. Marks of placeholders are removed, those of tags are kept."""
    parts, kept = [], ""
    text = re.sub(f"{_BEGIN}({NO_BREAK.pattern}){_END}", r"\1", text)
    for part, is_text in cut(MARK, text):
        before, words, after = _edges(part)
        if is_text and any(map(str.isalpha, NO_BREAK.sub("", words))):
            parts += [kept + before, NO_BREAK.sub(lambda blank: keep(blank[0]), words)]
            kept = after
        else:
            kept += re.sub(f"[{_BEGIN}{_END}]", "", part)
    return Pieces((*parts, kept), ({},) * (len(parts) // 2), is_markup=False)


def _edges(text: str) -> tuple[str, str, str]:
    """Return the blanks before a text, the text without them, and the blanks after it."""
    left = text.lstrip()
    words = left.rstrip()
    return text[: len(text) - len(left)], words, left[len(words) :]


def _words_of(run: Run, syntax: Syntax, dialect: str) -> tuple[str, str, str, dict[str, str]]:
    """Return the text before, the text to translate, the text after, and the tags by mark."""
    marks = _marks(run)
    begin, end = 0, len(run)
    while begin < end:  # tags and blanks at the edges need no alignment with the translation
        first, last = marks[begin], marks[end - 1]
        if is_alone(first) or not (first or run[begin].raw.strip()):
            begin += 1
        elif is_alone(last) or not (last or run[end - 1].raw.strip()):
            end -= 1
        elif first and last and ord(last) - ord(first) == MOST_TAGS:
            begin, end = begin + 1, end - 1
        else:
            break
    texts = ["" if part.tag else _protected(part.raw, syntax, dialect) for part in run[begin:end]]
    if not any(map(str.isalpha, MARK.sub("", "".join(texts)))):
        return "", "", "".join(part.raw for part in run), {}
    marked = "".join(text or mark for text, mark in zip(texts, marks[begin:end], strict=True))
    before, words, after = _edges(marked)
    words = _LINE_BREAK.sub(" ", words)  # where line breaks are kept, there are none
    tags = {mark: part.raw for mark, part in zip(marks, run, strict=True) if mark}
    outside = ["".join(part.raw for part in own) for own in (run[:begin], run[end:])]
    return outside[0] + before, words, after + outside[1], tags


def _protected(text: str, syntax: Syntax, dialect: str) -> str:
    parts = placeholder_parts(html.unescape(text) if syntax.is_escaped else text, dialect)
    parts[::2] = [NO_BREAK.sub(lambda blank: keep(blank[0]), part) for part in parts[::2]]
    parts[1::2] = map(keep, parts[1::2])
    return "".join(parts).replace(_END + _BEGIN, "")  # %d%% stays together


def _marks(run: Run) -> list[str]:
    """Return the mark of each tag, empty for text."""
    pairs, _ = pair_up(run)
    marks = []
    for place, part in enumerate(run):
        other = pairs.get(place, place)
        kind = ALONE if other == place else OPEN if other > place else CLOSE
        marks.append(mark(kind, min(place, other)) if part.tag else "")
    return marks
