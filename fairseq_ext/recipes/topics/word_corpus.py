"""Lines of a domain reduced to candidate words of topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from fairseq_ext.corpora.byte_level_bpe import VOCAB_FILE, read_spellings
from fairseq_ext.corpora.split import stable_hash
from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.inputs.errors import InputError

WORD_START = "\u2581"  # SentencePiece's mark
_SHORTEST = 3  # letters
# What precedes the apostrophe of a contracted stop word.
_CONTRACTED = frozenset(
    ["ain", "aren", "couldn", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn", "mightn", "mustn", "needn"]
    + ["shouldn", "wasn", "weren", "wouldn"]
)


@dataclass(frozen=True)
class WordCorpus:
    """Lines drawn from a domain, reduced to candidate words.

    Attributes:
        numbers: of the lines in their file, counted from 0, in ascending order.
        words: the candidate words, sorted, by the dictionary's piece for each.
        documents: the candidate words of each line, in order; may be empty.
    """

    numbers: np.ndarray
    words: Mapping[str, str]
    documents: Sequence[Sequence[str]]


def read_word_corpus(path: Path, subwords: Path, domain: str, *, count: int, min_count: int, seed: int) -> WordCorpus:
    """Draw ``count`` lines of a file of pieces, or all if there are fewer, and keep their candidate words.

    A candidate occurs in at least ``min_count`` of these lines. ``subwords`` is the folder of the pieces' subwords.
    """
    lines = list(stream_lines(path))
    generator = np.random.default_rng(stable_hash(seed, "topics", domain))
    drawn = np.sort(generator.permutation(len(lines))[:count])
    marked = _marked_pieces(subwords / VOCAB_FILE)
    texts = [list(whole_words([marked.get(piece, piece) for piece in lines[number].split()])) for number in drawn]
    words = candidate_words(texts, min_count)
    if not words:
        raise InputError(
            f"{path}: no word is in {min_count} of {len(drawn)} lines; lower topics: min_count, or take subwords with "
            "whole words among them"
        )
    piece_of = {text: piece for piece, text in marked.items()}
    pieces = {piece_of.get(WORD_START + word, WORD_START + word): word for word in words}
    known = set(words)
    return WordCorpus(drawn, pieces, [[word for word in text if word in known] for text in texts])


def _marked_pieces(vocab: Path) -> Mapping[str, str]:
    """What the pieces of a byte-level BPE spell, written as SentencePiece would; none for other subwords."""
    spellings = read_spellings(vocab) if vocab.is_file() else {}
    return {piece: text.replace(" ", WORD_START, 1) for piece, text in spellings.items()}


def whole_words(pieces: Sequence[str]) -> Iterator[str]:
    """The words of a line that are a single piece: the next piece begins another word, or with no letter or digit."""
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=False):
        if piece.startswith(WORD_START) and not following[:1].isalnum():
            yield piece[1:]


def candidate_words(documents: Iterable[Sequence[str]], min_count: int) -> list[str]:
    """Content words, sorted.

    They occur in at least ``min_count`` documents, have at least three lower-case letters and nothing else, and are
    neither English stop words (scikit-learn's list) nor prefixes of one.
    """
    counts = Counter(word for words in documents for word in set(words))
    return sorted(word for word, count in counts.items() if count >= min_count and _can_be_topical(word))


def _can_be_topical(word: str) -> bool:
    is_word = word.isalpha() and word.islower() and len(word) >= _SHORTEST
    return is_word and word not in ENGLISH_STOP_WORDS and word not in _CONTRACTED
