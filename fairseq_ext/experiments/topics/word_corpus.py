"""A domain's lines as topic models without a language model see them: bags of words that can stand for a topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.text.split import stable_hash

WORD_START = "\u2581"  # SentencePiece's mark
_NONE: Mapping[str, str] = {}
_SHORTEST = 3  # letters
# What is left of a stop word before its apostrophe.
_CONTRACTED = frozenset(
    ["ain", "aren", "couldn", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn", "mightn", "mustn", "needn"]
    + ["shouldn", "wasn", "weren", "wouldn"]
)


@dataclass(frozen=True)
class WordCorpus:
    """Drawn lines of a domain, reduced to candidate words.

    Attributes:
        numbers: of the lines in their file, counted from 0, in order.
        words: that occur, sorted, by the dictionary's piece for each.
        documents: the words of each line, in order; of some lines none is left.
    """

    numbers: np.ndarray
    words: Mapping[str, str]
    documents: Sequence[Sequence[str]]


def read_word_corpus(
    path: Path, domain: str, *, count: int, min_count: int, seed: int, spellings: Mapping[str, str] = _NONE
) -> WordCorpus:
    """Draw lines of a file of pieces, and keep their candidate words.

    Args:
        path: the file, pieces parted by blanks.
        domain: whose it is; other domains' lines are drawn differently.
        count: how many lines, or all there are.
        min_count: in how many of these a word has to be.
        seed: of the draw.
        spellings: what pieces spell that are written otherwise, as those of a byte-level BPE are; a blank before a word
            is part of its piece.

    Raises:
        InputError: if no word can be a candidate.
    """
    lines = list(stream_lines(path))
    drawn = np.sort(np.random.default_rng(stable_hash(seed, "topics", domain)).permutation(len(lines))[:count])
    marked = {piece: text.replace(" ", WORD_START, 1) for piece, text in spellings.items()}
    texts = [list(whole_words([marked.get(piece, piece) for piece in lines[number].split()])) for number in drawn]
    written = {text: piece for piece, text in marked.items()}
    words = candidate_words(texts, min_count)
    if not words:
        raise InputError(
            f"{path}: no word is in {min_count} of {len(drawn)} lines; lower topics: min_count, or take subwords with "
            "whole words among them"
        )
    pieces = {written.get(WORD_START + word, WORD_START + word): word for word in words}
    known = set(words)
    return WordCorpus(drawn, pieces, [[word for word in text if word in known] for text in texts])


def whole_words(pieces: Sequence[str]) -> Iterator[str]:
    """The words of a line that are a single piece: what follows begins another word, or is no letter or figure."""
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=False):
        if piece.startswith(WORD_START) and not following[:1].isalnum():
            yield piece[1:]


def candidate_words(documents: Iterable[Sequence[str]], min_count: int) -> list[str]:
    """Words that can tell what a text is about, sorted.

    They have at least three letters, all small ones, and nothing else; they are no stop words of English
    (scikit-learn's list), nor the beginning of one.

    Args:
        documents: the words of each.
        min_count: in how many of them a word has to be.
    """
    counts = Counter(word for words in documents for word in set(words))
    return sorted(word for word, count in counts.items() if count >= min_count and _can_be_topical(word))


def _can_be_topical(word: str) -> bool:
    is_word = word.isalpha() and word.islower() and len(word) >= _SHORTEST
    return is_word and word not in ENGLISH_STOP_WORDS and word not in _CONTRACTED
