"""Encoding and decoding of text with ``vocabulary.json``, independent of fairseq."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fairseq_ext.base.domain_names import domain_tag, is_domain_tag
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.json_file import read_typed
from fairseq_ext.text.subwords import MODEL_FILE, load_subwords, own_model_name

VOCABULARY_FILE = "vocabulary.json"
REMEDY = "export the system again with fairseq-ext export"
_SPACE = "\u2581"  # SentencePiece's symbol for a blank
_UNKNOWN = "<unk>"
_LONGEST = 1 << 20  # positions
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Vocabulary:
    """Symbols of source and target, and the special tokens of a sentence.

    Symbols are listed in the order of their indices. All tokens are such indices.
    """

    source: list[str]
    target: list[str]
    pad: int
    eos: int  # end of a source sentence
    unk: int
    first: int  # first input of the decoder
    last: int  # end of a translation
    before: list[int]  # tokens before a source sentence
    after: list[int]  # tokens after its end
    prefix: list[int]  # tokens with which every translation begins
    not_text: list[int]  # source symbols that text must not produce
    not_printed: list[int]  # target symbols that are omitted from text
    has_tags: bool  # whether the model reads domain tags
    longest_source: int  # maximum positions of the encoder
    longest_target: int  # maximum positions of the decoder

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), ensure_ascii=False) + "\n", encoding="utf-8")

    def check(self, domains: Sequence[str], path: Path) -> None:
        """Check that all numbers are those of symbols, and that each domain that needs a tag has one."""
        of_source = (self.pad, self.eos, self.unk, *self.before, *self.after, *self.not_text)
        of_target = (self.pad, self.unk, self.first, self.last, *self.prefix, *self.not_printed)
        tags = [domain_tag(name) for name in domains] if self.has_tags else []
        lengths = (self.longest_source, self.longest_target)
        is_right = all(
            0 <= number < len(symbols)
            for symbols, numbers in ((self.source, of_source), (self.target, of_target))
            for number in numbers
        )
        if not (is_right and {*tags} <= {*self.source} and all(0 < length <= _LONGEST for length in lengths)):
            raise InputError(f"{path}: has numbers of symbols that it does not have; {REMEDY}")


class Text:
    """Encodes text to tokens and decodes tokens to text. Without subword models, symbols are words."""

    def __init__(self, vocabulary: Vocabulary, subwords: Any = None, target_subwords: Any = None) -> None:
        self.vocabulary = vocabulary
        self._subwords, self._target_subwords = subwords, target_subwords or subwords
        self._numbers = {symbol: number for number, symbol in enumerate(vocabulary.source)}
        self._target_numbers = {symbol: number for number, symbol in enumerate(vocabulary.target)}
        self._not_text, self._not_printed = set(vocabulary.not_text), set(vocabulary.not_printed)
        self._texts = [self._written(token) for token in range(len(vocabulary.target))]

    @classmethod
    def read(cls, directory: Path, target_lang: str, domains: Sequence[str] = ()) -> Text:
        """Read the vocabulary and subword models of an exported system with these domains."""
        paths = [directory / MODEL_FILE, directory / own_model_name(target_lang)]
        models = [load_subwords(path, REMEDY) if path.is_file() else None for path in paths]
        path = directory / VOCABULARY_FILE
        vocabulary = read_typed(path, Vocabulary, REMEDY)
        vocabulary.check(domains, path)
        return cls(vocabulary, *models)

    def pieces(self, text: str) -> list[str]:
        """Return the subwords of a source text."""
        return _cut(text, self._subwords)

    def count(self, text: str) -> int:
        """Return the approximate length of a text in subwords, including the end of the sentence."""
        return len(self.pieces(text)) + 1

    def encode(self, text: str, domain: str | None) -> np.ndarray:
        """Return the tokens of a source sentence, including special tokens and the domain tag."""
        vocabulary = self.vocabulary
        numbers = [self._numbers.get(piece, vocabulary.unk) for piece in self.pieces(text)]
        for number in numbers:
            if is_domain_tag(symbol := vocabulary.source[number]):
                raise InputError(f"{text.strip()!r}: contains the reserved symbol {symbol}; remove it")
        numbers = [vocabulary.unk if number in self._not_text else number for number in numbers]
        tag = [self._numbers[domain_tag(domain)]] if vocabulary.has_tags and domain is not None else []
        return np.array([*tag, *vocabulary.before, *numbers, vocabulary.eos, *vocabulary.after])

    def encode_prefix(self, text: str) -> list[int]:
        """Return the tokens of the beginning of a translation."""
        return [self._target_numbers.get(piece, self.vocabulary.unk) for piece in _cut(text, self._target_subwords)]

    def encode_exactly(self, text: str) -> list[int]:
        """Return the tokens of a part of a translation, or an empty list if the vocabulary cannot represent it."""
        numbers = self.encode_prefix(text)
        return numbers if self.decode(numbers) == text else []

    def targets_with(self, characters: str) -> np.ndarray:
        """Return the target tokens that are written with any of some characters."""
        return np.array(
            [token for token in range(len(self.vocabulary.target)) if {*self._written(token)} & {*characters}]
        )

    def is_unknown(self, text: str) -> bool:
        """Return whether a text has a character that no source subword has. Without subwords, symbols are words."""
        return self._subwords is not None and not all(map(self._knows, text))

    @lru_cache(1 << 16)  # noqa: B019
    def _knows(self, character: str) -> bool:
        return all(piece in self._numbers for piece in _cut(character, self._subwords))

    def symbols(self, tokens: Sequence[int] | np.ndarray) -> list[str]:
        """Return the subwords of a translation, including the end of the sentence."""
        return [self.vocabulary.target[token] for token in tokens]

    def decode(self, tokens: Sequence[int] | np.ndarray) -> str:
        """Return the text of a translation."""
        return "".join(self._parts(tokens)).strip()

    def spans(self, tokens: Sequence[int] | np.ndarray) -> list[tuple[int, int]]:
        """Return the character span of each token in the text of a translation."""
        parts = self._parts(tokens)
        blanks = len("".join(parts)) - len("".join(parts).lstrip())
        ends = [end - blanks for end in accumulate(map(len, parts))]
        return [(end - len(part.lstrip()), end) for part, end in zip(parts, ends, strict=True)]

    def _parts(self, tokens: Sequence[int] | np.ndarray) -> list[str]:
        return [self._texts[token] for token in tokens]

    def _written(self, token: int) -> str:
        if token in self._not_printed:
            return ""
        symbol = _UNKNOWN if token == self.vocabulary.unk else self.vocabulary.target[token]
        return f" {symbol}" if self._subwords is None else symbol.replace(_SPACE, " ")


def _cut(text: str, subwords: Any) -> list[str]:
    try:
        pieces: list[str] = text.split() if subwords is None else subwords.encode(text, out_type=str)
    except RuntimeError as error:  # of a model that is read but cannot be used
        raise InputError(f"SentencePiece cannot cut a text ({error}); {REMEDY}") from None
    # fairseq splits symbols at blanks.
    return [part for piece in pieces for part in piece.split()]
