"""Split text that is too long to be translated at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from fairseq_ext.serve.runtime.pieces import stow

# Sentence-final punctuation with closing quotes and brackets, then blanks; for CJK punctuation, blanks are optional.
_MARKS = "\U000f0000-\U000fffff"  # marks of tags and placeholders, see fairseq_ext.serve.runtime.pieces
# The patterns do not backtrack, and begin only at the first mark of a row.
_END = re.compile(rf"""(?<![.!?…])[.!?…]++["'”’»)\]{_MARKS}]*+\s++|(?<![。！？])[。！？]++["'”’」』）{_MARKS}]*+\s*+""")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without the blanks between them."""
    sentences, start = [], 0
    for end in _END.finditer(text):
        sentences.append(text[start : end.end()].strip())
        start = end.end()
    return [sentence for sentence in (*sentences, text[start:].strip()) if sentence]


def cut(text: str, most: int, count: Callable[[str], int]) -> Iterator[tuple[str, int]]:
    """Yield a text, or its sentences if it is too long, each with its length. Sentences that are too long are split.

    Args:
        text: text of one line.
        most: maximum length of each yielded text; only a single character may exceed it.
        count: function that returns the length of a text.
    """
    length = count(text)
    if length <= most:
        yield text, length
        return
    text, held = stow(text)

    def own_count(part: str) -> int:
        return count(part.translate(held))

    for sentence in split_sentences(text) or [text]:
        parts = [sentence] if own_count(sentence) <= most else _cut_between_words(sentence, most, own_count)
        yield from ((part.translate(held), own_count(part)) for part in parts)


def _cut_between_words(sentence: str, most: int, count: Callable[[str], int]) -> list[str]:
    """Split a sentence between words, after a comma or similar punctuation if the part is at least half of ``most``."""
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
    """Split a word in halves until each part is short enough, as needed in scripts without blanks."""
    if count(word) <= most:
        return [word]
    half = len(word) // 2
    return [word] if half == 0 else [*_cut_word(word[:half], most, count), *_cut_word(word[half:], most, count)]
