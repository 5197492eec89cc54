"""A text as sentences, where it is too long to be translated as one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

# A full stop and its like with the quotation marks and brackets that follow it, then a blank; or one that needs none.
_MARKS = "\U000f0000-\U000fffff"  # of tags and placeholders, see fairseq_ext.runtime.pieces
_END = re.compile(rf"""[.!?…]+["'”’»)\]{_MARKS}]*\s+|[。！？]+["'”’」』）{_MARKS}]*\s*""")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text; joined by blanks they are the text again, but for scripts that write none."""
    sentences, start = [], 0
    for end in _END.finditer(text):
        sentences.append(text[start : end.end()].strip())
        start = end.end()
    return [sentence for sentence in (*sentences, text[start:].strip()) if sentence]


def cut(text: str, most: int, count: Callable[[str], int]) -> Iterator[tuple[str, int]]:
    """Yield a text, or its sentences if it is too long, each with its length; a sentence that is too long, in parts.

    Args:
        text: of one line.
        most: length of what is yielded, but for a single word that is longer.
        count: the length of a text.
    """
    length = count(text)
    if length <= most:
        yield text, length
        return
    for sentence in split_sentences(text) or [text]:
        length = count(sentence)
        parts = [sentence] if length <= most else _cut_between_words(sentence, most, count)
        yield from ((part, count(part)) for part in parts)


def _cut_between_words(sentence: str, most: int, count: Callable[[str], int]) -> list[str]:
    """Parts of a sentence that end after a comma or its like where that leaves them half as long as they may be."""
    words = [part for word in sentence.split() for part in _cut_word(word, most, count)]
    parts: list[list[str]] = [[]]
    length = best = 0
    for word in words:
        own = count(word)
        if parts[-1] and length + own > most:
            kept = best if best and count(" ".join(parts[-1][:best])) * 2 >= most else len(parts[-1])
            parts[-1:] = [parts[-1][:kept], parts[-1][kept:]]
            length, best = sum(map(count, parts[-1])), 0
        parts[-1].append(word)
        length += own
        if word[-1] in ",;:–—、，；：":
            best = len(parts[-1])
    return [" ".join(part) for part in parts if part]


def _cut_word(word: str, most: int, count: Callable[[str], int]) -> list[str]:
    """A word, in parts where it is no word, or of a script without blanks."""
    if count(word) <= most:
        return [word]
    half = len(word) // 2
    return [word] if half == 0 else [*_cut_word(word[:half], most, count), *_cut_word(word[half:], most, count)]
