"""From text to a model's numbers and back, as ``vocabulary.json`` says; nothing of it comes from fairseq."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.corpora.subwords import MODEL_FILE, load_subwords, own_model_name
from fairseq_ext.inputs.domain_names import domain_tag, is_domain_tag
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.json_file import is_texts, read_json

VOCABULARY_FILE = "vocabulary.json"
REMEDY = "export the system again with fairseq-ext export"
_SPACE = "\u2581"  # SentencePiece's
_UNKNOWN = "<unk>"
_LONGEST = 1_000_000


@dataclass(frozen=True)
class Vocabulary:
    """The symbols of both sides, and what stands around a sentence.

    Attributes:
        source: symbols by number.
        target: likewise.
        pad: number of the padding.
        eos: of the end of a source sentence.
        unk: of what is unknown.
        first: what decoding begins with.
        last: what ends a translation.
        before: tokens in front of a source sentence.
        after: tokens behind its end.
        prefix: tokens with which every translation begins.
        not_text: of the source's, those that text cannot yield.
        not_printed: of the target's, those that are no text.
        has_tags: whether the model reads the tag of a sentence's domain.
        longest_source: positions of the encoder.
        longest_target: positions of the decoder.
    """

    source: list[str]
    target: list[str]
    pad: int
    eos: int
    unk: int
    first: int
    last: int
    before: list[int]
    after: list[int]
    prefix: list[int]
    not_text: list[int]
    not_printed: list[int]
    has_tags: bool
    longest_source: int
    longest_target: int

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        """
        Raises:
            InputError: naming the key that is missing or of another kind.
        """
        content = read_json(path, REMEDY)
        sizes = {key: len(content[key]) if is_texts(content.get(key)) else 0 for key in ("source", "target")}
        limits = {
            **dict.fromkeys(("pad", "eos", "unk", "before", "after", "not_text"), sizes["source"]),
            **dict.fromkeys(("first", "last", "prefix", "not_printed"), sizes["target"]),
            **dict.fromkeys(("longest_source", "longest_target"), _LONGEST),
        }
        lists = ("before", "after", "prefix", "not_text", "not_printed")
        claims = {key: size > 0 for key, size in sizes.items()}
        claims |= {key: _are_numbers(content.get(key), limit, key in lists) for key, limit in limits.items()}
        claims["has_tags"] = isinstance(content.get("has_tags"), bool)
        for key, holds in claims.items():
            if not holds:
                raise InputError(f"{path}: {key}: {shown(content.get(key))} is none of a vocabulary's; {REMEDY}")
        return cls(**{key: content[key] for key in claims})

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), ensure_ascii=False) + "\n", encoding="utf-8")


class Text:
    """Cuts text into a model's numbers, and joins those that it yields.

    Args:
        vocabulary: of the model.
        subwords: SentencePiece model; None where words are symbols.
        target_subwords: that of the target, where it is another one.
    """

    def __init__(self, vocabulary: Vocabulary, subwords: Any = None, target_subwords: Any = None) -> None:
        self.vocabulary = vocabulary
        self._subwords, self._target_subwords = subwords, target_subwords or subwords
        self._numbers = {symbol: number for number, symbol in enumerate(vocabulary.source)}
        self._target_numbers = {symbol: number for number, symbol in enumerate(vocabulary.target)}
        self._not_text, self._not_printed = set(vocabulary.not_text), set(vocabulary.not_printed)

    @classmethod
    def read(cls, directory: Path, target_lang: str) -> Text:
        """Read what an exported system has of it.

        Raises:
            InputError: naming the file that is damaged.
        """
        paths = [directory / MODEL_FILE, directory / own_model_name(target_lang)]
        models = [load_subwords(path, REMEDY) if path.is_file() else None for path in paths]
        return cls(Vocabulary.read(directory / VOCABULARY_FILE), *models)

    def pieces(self, text: str) -> list[str]:
        """A text's subwords."""
        return _cut(text, self._subwords)

    def encode(self, text: str, domain: str | None) -> np.ndarray:
        """The numbers of a source sentence.

        Raises:
            InputError: if the text holds the tag of a domain, in whatever characters.
        """
        vocabulary = self.vocabulary
        numbers = [self._numbers.get(piece, vocabulary.unk) for piece in self.pieces(text)]
        for number in numbers:
            if is_domain_tag(symbol := vocabulary.source[number]):
                raise InputError(
                    f"{text.strip()!r}: holds {symbol}, a reserved symbol; it may only open a line, as it is"
                )
        numbers = [vocabulary.unk if number in self._not_text else number for number in numbers]
        tag = [self._numbers[domain_tag(domain)]] if vocabulary.has_tags and domain is not None else []
        return np.array([*tag, *vocabulary.before, *numbers, vocabulary.eos, *vocabulary.after])

    def encode_prefix(self, text: str) -> list[int]:
        """The numbers of the beginning of a translation."""
        return [self._target_numbers.get(piece, self.vocabulary.unk) for piece in _cut(text, self._target_subwords)]

    def encode_exactly(self, text: str) -> list[int]:
        """The numbers of a part of a translation; none if the vocabulary cannot write it."""
        numbers = self.encode_prefix(text)
        return numbers if self.decode(numbers) == text else []

    def symbols(self, tokens: Sequence[int] | np.ndarray) -> list[str]:
        """The pieces of a translation, its end included."""
        return [self.vocabulary.target[token] for token in tokens]

    def decode(self, tokens: Sequence[int] | np.ndarray) -> str:
        """The text of a translation."""
        return "".join(self._parts(tokens)).strip()

    def spans(self, tokens: Sequence[int] | np.ndarray) -> list[tuple[int, int]]:
        """Where each token of a translation is in its text."""
        parts = self._parts(tokens)
        blanks = len("".join(parts)) - len("".join(parts).lstrip())
        ends = [end - blanks for end in accumulate(map(len, parts))]
        return [(end - len(part.lstrip()), end) for part, end in zip(parts, ends, strict=True)]

    def _parts(self, tokens: Sequence[int] | np.ndarray) -> list[str]:
        symbols = [
            ""
            if token in self._not_printed
            else _UNKNOWN
            if token == self.vocabulary.unk
            else self.vocabulary.target[token]
            for token in tokens
        ]
        if self._subwords is None:
            return [symbol and f" {symbol}" for symbol in symbols]
        return [symbol.replace(_SPACE, " ") for symbol in symbols]


def _cut(text: str, subwords: Any) -> list[str]:
    pieces: list[str] = text.split() if subwords is None else subwords.encode(text, out_type=str)
    # A piece with a blank in it would be two of fairseq's symbols.
    return [part for piece in pieces for part in piece.split()]


def _are_numbers(value: Any, limit: int, is_list: bool) -> bool:
    """Whether a value is a number of symbols below a limit, or a list of such."""
    values = value if is_list else [value]
    return isinstance(values, list) and all(type(each) is int and 0 <= each < limit for each in values)
