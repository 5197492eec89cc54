"""Insert the marks of a source text into its translation; see :mod:`fairseq_ext.serve.runtime.pieces` for marks.

Attention determines the places of tags. A pair encloses the words that attend most to its content in the source. A tag
that stands alone is placed between the words that attend to its neighbours. Every tag is inserted exactly once, nested
as in the source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairseq_ext.serve.runtime.pieces import CLOSE, MARK, NO_BREAK, OPEN, without_marks
from fairseq_ext.serve.runtime.tags import MOST_TAGS

_GAP = "\ufffc"  # stands for a placeholder where it must not be read
LONGEST_KEPT = 12  # maximum subwords of a placeholder that the model has to repeat


@dataclass
class Mark:
    """A tag, or a placeholder hidden from the model, to insert into a translation."""

    text: str
    begin: int  # its position in the source text without marks
    end: int  # position of its end tag; equal to begin for a tag that stands alone
    closing: str = ""  # the end tag
    inner: list[Mark] = field(default_factory=list)  # marks between start tag and end tag


@dataclass(frozen=True)
class Marked:
    """A text with marks, after reading."""

    original: str  # text with all marks
    text: str  # text as the model sees it
    marks: list[Mark] = field(default_factory=list)  # marks to insert into the translation
    kept: dict[str, int] = field(default_factory=dict)  # placeholders that the model has to repeat, with their counts
    words: str = ""  # text without these

    @classmethod
    def read(cls, text: str, can_keep: Callable[[str], bool]) -> Marked:
        """Read a text with marks.

        Args:
            can_keep: whether the model can repeat a placeholder; other placeholders are treated like tags.
        """
        plain, words, end = "", "", 0
        kept: dict[str, int] = {}
        # Open pairs, outermost first. The first entry stands for the whole text.
        stack = [Mark("", 0, 0)]
        for found in MARK.finditer(text):
            plain += text[end : found.start()]
            words += text[end : found.start()]
            end = found.end()
            placeholder, tag = found[1], found[2]
            is_blank = NO_BREAK.fullmatch(placeholder or "")
            if placeholder and not is_blank and can_keep(placeholder):
                plain += placeholder
                kept[placeholder] = kept.get(placeholder, 0) + 1
            elif tag and OPEN[0] <= tag <= OPEN[1]:
                mark = Mark(tag, len(plain), len(plain))
                stack[-1].inner.append(mark)
                stack.append(mark)
            elif tag and tag <= CLOSE[1] and ord(tag) - ord(stack[-1].text or CLOSE[0]) == MOST_TAGS:
                mark = stack.pop()
                mark.closing, mark.end = tag, len(plain)
            elif tag or placeholder:
                stack[-1].inner.append(Mark(tag or placeholder, len(plain), len(plain)))
            if is_blank:
                plain, words = f"{plain} ", f"{words} "
            elif placeholder:
                words += _GAP
        while len(stack) > 1:  # a pair may be split between sentences: an unclosed tag stands alone
            half = stack.pop()
            stack[-1].inner += half.inner
            half.inner = []
        return cls(text, plain + text[end:], stack[0].inner, kept, words + text[end:])

    @property
    def has_words(self) -> bool:
        """Whether it has letters or digits that the model knows."""
        return any(map(str.isalnum, self.words))

    @property
    def placeholders(self) -> tuple[str, ...]:
        """All placeholders, in order."""
        return tuple(each[1] for each in MARK.finditer(self.original) if (each[1] or "").strip())

    def spaced(self, target: str) -> str:
        """Return the translation with the blanks that the source has beside placeholders, where words are in them.

        It has none between a placeholder and a word that is written together with it.
        """
        source, end = without_marks(self.original), 0
        places: dict[str, list[tuple[str | None, str | None]]] = {}  # blanks before and after, of each in turn
        for found in MARK.finditer(self.original):
            if (placeholder := found[1]) and not NO_BREAK.fullmatch(placeholder):
                begin = source.index(placeholder, end)
                end = begin + len(placeholder)
                size = 3 if any(map(str.isalnum, placeholder)) else 1  # a word after {n}; anything after a symbol
                blanks = _blank(source[:begin][: -size - 1 : -1], size), _blank(source[end : end + size], size)
                places.setdefault(placeholder, []).append(blanks)
        if not places:
            return target

        def spaced(found: re.Match[str]) -> str:
            before, after = places[found[2]].pop(0) if len(places[found[2]]) > 1 else places[found[2]][0]
            if before is None or not target[: found.start()][-1:].isalnum():
                before = found[1]
            if after is None or not target[found.end() :][:1].isalnum():
                after = found[3]
            return before + found[2] + after

        longest = sorted(places, key=len, reverse=True)
        return re.sub(f"( ?)({'|'.join(map(re.escape, longest))})( ?)", spaced, target)


def _blank(beside: str, size: int) -> str | None:
    """Return the blank between a placeholder and the ``size`` characters beside it; None if it may vary.

    The nearest character is the first. With none between, they are letters.
    """
    if beside[:1].isspace():
        return " "
    return "" if len(beside) == size and beside.isalnum() else None


class Placing:
    """Inserts marks into a translation.

    Args:
        source: source text without marks.
        target: translation without marks.
        kept: placeholders of both texts, which are never split.
        spans: character span of each of the T subwords of the translation.
        attention: attention of these subwords to the S subwords of the source, T×S.
        count: function that returns the number of subwords in a prefix of the source.
    """

    def __init__(
        self,
        source: str,
        target: str,
        kept: Sequence[str],
        spans: Sequence[tuple[int, int]],
        attention: np.ndarray,
        count: Callable[[str], int],
    ) -> None:
        self._source, self._target, self._count = source, target, count
        self._words = list(_words(target, kept))
        shares = attention / np.maximum(attention.sum(1, keepdims=True), 1e-9)
        self._shares = np.zeros((len(self._words), shares.shape[1]))  # attention of each word, mean of its subwords
        for row, word in enumerate(self._words):
            own = [piece for piece, (begin, end) in enumerate(spans) if begin < word[1] and end > word[0]]
            if own:
                self._shares[row] = shares[own].mean(0)

    def text(self, marks: Sequence[Mark]) -> str:
        """Return the translation with marks inserted."""
        # Marks before each word, and after the last: (whether attached to the preceding word, text).
        self._before: list[list[tuple[bool, str]]] = [[] for _ in range(len(self._words) + 1)]
        self._place(marks, 0, len(self._words))
        text, end = "", 0
        for place, own in enumerate(self._before):
            begin = self._words[place][0] if place < len(self._words) else len(self._target)
            sticking = next((number for number, (sticks, _) in enumerate(own) if not sticks), len(own))
            text += "".join(mark for _, mark in own[:sticking]) + self._target[end:begin]
            text += "".join(mark for _, mark in own[sticking:])
            if place < len(self._words):
                end = self._words[place][1]
                text += self._target[begin:end]
        return re.sub(f" *({NO_BREAK.pattern}) *", r"\1", text)

    def _place(self, marks: Sequence[Mark], low: int, high: int) -> None:
        """Place marks and their inner marks among the words ``low`` to ``high``."""
        is_free = np.ones(len(self._words), bool)
        is_free[:low] = is_free[high:] = False
        places: list[tuple[int, int, int, Mark]] = []
        for number, mark in enumerate(marks):
            if mark.end > mark.begin:
                begin, end = self._span(mark, is_free, high)
                is_free[begin:end] = False
                places.append((begin, end, number, mark))
        inside = {place for begin, end, _, _ in places for place in range(begin + 1, end)}
        for number, mark in enumerate(marks):
            if mark.end == mark.begin:
                place = self._place_alone(mark, [each for each in range(low, high + 1) if each not in inside])
                places.append((place, place, number, mark))
        for begin, end, _, mark in sorted(places, key=lambda each: each[:3]):
            if mark.closing:
                self._before[begin].append((False, mark.text))
                self._place(mark.inner, begin, end)
                self._before[end].append((begin < end, mark.closing))
            else:
                self._before[begin].append(self._spaced(mark, begin, low))

    def _span(self, mark: Mark, is_free: np.ndarray, high: int) -> tuple[int, int]:
        """Return the span of words that attend mostly to the content of a pair; at least the best word.

        The span maximises the sum of (attention to the content - 0.5).
        """
        begin, end = (self._count(self._source[:place]) for place in (mark.begin, mark.end))
        gains = np.where(is_free, self._shares[:, begin:end].sum(1) - 0.5, -np.inf)
        if not is_free.any():
            return high, high
        best = (int(gains.argmax()), int(gains.argmax()) + 1)
        most, total, start = float(gains.max()), 0.0, 0
        for place, gain in enumerate(gains.tolist()):
            total += gain
            if total > most:
                most, best = total, (start, place + 1)
            if total <= 0:
                total, start = 0.0, place + 1
        return self._without_punctuation(*best, self._source[mark.begin : mark.end])

    def _without_punctuation(self, begin: int, end: int, source: str) -> tuple[int, int]:
        """Remove punctuation at the edges of a span that does not occur in the source."""
        texts = [self._target[slice(*word)] for word in self._words]
        is_foreign = [not text[0].isalnum() and text not in source for text in texts]
        while end - begin > 1 and is_foreign[begin]:
            begin += 1
        while end - begin > 1 and is_foreign[end - 1]:
            end -= 1
        return begin, end

    def _place_alone(self, mark: Mark, places: Sequence[int]) -> int:
        """Return the place whose neighbours attend most to the mark's neighbours in the source."""
        column, (words, columns) = self._count(self._source[: mark.begin]), self._shares.shape
        before = np.zeros(words + 1)
        after = np.zeros(words + 1)
        before[1:] = self._shares[:, column - 1] if column else 0
        before[0] = column == 0
        after[:-1] = self._shares[:, column] if column < columns else 0
        after[-1] = column >= columns
        return max(places, key=lambda place: float(before[place] + after[place]))

    def _spaced(self, mark: Mark, place: int, low: int) -> tuple[bool, str]:
        """Return whether a mark that stands alone is attached to the preceding word, and its text.

        Blanks around it are as in the source.
        """
        before, after = self._source[: mark.begin], self._source[mark.begin :]
        is_first, is_last = not before or before[-1].isspace(), not after or after[0].isspace()
        if is_first and is_last and self._words:
            return (False, f"{mark.text} ") if place == low else (True, f" {mark.text}")
        sticks = place > low and (is_last or place == len(self._words))
        if MARK.fullmatch(mark.text) or (place == len(self._words) and not sticks):
            return sticks, mark.text
        begin, end = self._words[place - 1 if sticks else place]
        blank = " " if self._target[begin:end].isalnum() else ""  # a placeholder must not merge with a word
        return (True, blank + mark.text) if sticks else (False, mark.text + blank)


def _words(text: str, kept: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of words, placeholders and punctuation. In CJK scripts every character is a word."""
    letters = r"[^\W\u2e80-\ufaff]+"
    patterns = [*map(re.escape, kept), r"[\u2e80-\ufaff]", rf"{letters}(?:[-'’]{letters})*", r"[^\w\s]"]
    for found in re.finditer("|".join(patterns), text):
        yield found.span()
