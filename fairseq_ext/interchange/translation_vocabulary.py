"""How a translation model of Hugging Face's cuts text, numbers its symbols and is told the languages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.text_files import write_lines
from fairseq_ext.hugging_face.config_file import read_json
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.text.subwords import MODEL_FILE, load_subwords

TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, VOCAB_FILE = "tokenizer_config.json", "tokenizer.json", "vocab.json"
TARGET_VOCAB_FILE, SOURCE_MODEL, TARGET_MODEL = "target_vocab.json", "source.spm", "target.spm"
JOINT_MODEL = "sentencepiece.bpe.model"
SPECIALS_FILE = "special_tokens_map.json"
# All that a folder may have of them.
TEXT_FILES = (
    *(TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, SPECIALS_FILE, VOCAB_FILE, TARGET_VOCAB_FILE),
    *(SOURCE_MODEL, TARGET_MODEL, JOINT_MODEL),
)
BOS, PAD, EOS, UNK, MASK = "<s>", "<pad>", "</s>", "<unk>", "<mask>"
_SPECIAL = (BOS, PAD, EOS, UNK)
# Embeddings may have some rows more than there are symbols, up to a round number.
_MOST_UNUSED = 63
_LANGUAGE = re.compile(r"\w+")
_CODE = re.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]+")
# Line breaks, and halves of characters.
_UNWRITABLE = re.compile(r"[\r\n\ud800-\udfff]")
_MARIAN_CODE = re.compile(r">>(\w+)<<")


@dataclass(frozen=True)
class Side:
    """The symbols of one side, and what cuts its text.

    Attributes:
        symbols: by Hugging Face's number.
        model: the SentencePiece model.
    """

    symbols: Sequence[str]
    model: Path

    def order(self) -> list[int | None]:
        """By fairseq's number, Hugging Face's; None for a symbol that the model has not."""
        numbers: dict[str, int | None] = {symbol: number for number, symbol in enumerate(self.symbols)}
        first = [numbers.pop(symbol, None) for symbol in _SPECIAL]
        return [*first, *numbers.values()]

    def padded(self, rows: Any, where: Path) -> Side:
        """With names for the rows of the embeddings that stand for no symbol."""
        unused = rows - len(self.symbols) if type(rows) is int else -1
        if not 0 <= unused <= _MOST_UNUSED:
            raise InputError(
                f"{where}: vocab_size is {shown(rows)}, but the tokenizer has {len(self.symbols)} symbols; the two do "
                "not belong together"
            )
        return Side([*self.symbols, *(f"madeupword{number:04d}" for number in range(unused))], self.model)

    def write_dictionary(self, path: Path) -> None:
        """Write ``dict.LANG.txt``."""
        write_lines(path, (f"{symbol} 1" for symbol in self.symbols if symbol not in _SPECIAL))


@dataclass(frozen=True)
class Vocabulary:
    """Both sides, and how the model is told the languages.

    Attributes:
        source: symbols and cutting of the source.
        target: those of the target.
        style: one of :data:`~fairseq_ext.data.language_tokens.STYLES`, or ``none``.
        languages: of the source and the target.
    """

    source: Side
    target: Side
    style: str
    languages: tuple[str, str]

    @property
    def options(self) -> list[str]:
        """Those that fairseq's commands need to put language tokens where the model expects them."""
        source, target = self.languages
        told = [] if self.style == "none" else ["--language-tokens", self.style]
        return ["--source-lang", source, "--target-lang", target, *told]

    def write(self, folder: Path) -> None:
        """Write dictionaries and SentencePiece models."""
        for side, language in zip((self.source, self.target), self.languages, strict=True):
            side.write_dictionary(folder / f"dict.{language}.txt")
        (folder / MODEL_FILE).write_bytes(self.source.model.read_bytes())
        if self.target.model != self.source.model:
            (folder / f"sentencepiece.{self.languages[1]}.model").write_bytes(self.target.model.read_bytes())


def read_vocabulary(folder: Path, family: str, languages: Sequence[str | None]) -> Vocabulary:
    """Read the vocabulary of a model.

    Args:
        folder: Hugging Face's.
        family: ``marian``, or the style of the language tokens.
        languages: source and target; None for what ``tokenizer_config.json`` says.

    Raises:
        InputError: naming the file that is missing or damaged, or a language that the model does not have.
    """
    path = folder / TOKENIZER_CONFIG_FILE
    config = read_json(path) if path.is_file() else {}
    names = ("source_lang", "target_lang") if family == "marian" else ("src_lang", "tgt_lang")
    given = [own or config.get(name) for own, name in zip(languages, names, strict=True)]
    return _read_marian(folder, config, given)


def _read_marian(folder: Path, config: Mapping[str, Any], given: Sequence[Any]) -> Vocabulary:
    symbols = _numbered(folder / VOCAB_FILE)
    codes = [found[1] for symbol in symbols if (found := _MARIAN_CODE.fullmatch(symbol))]
    targets = _numbered(folder / TARGET_VOCAB_FILE) if config.get("separate_vocabs") else symbols
    languages = _languages(folder, given, codes, is_told_source=False)
    source, target = (Side(*pair) for pair in ((symbols, folder / SOURCE_MODEL), (targets, folder / TARGET_MODEL)))
    for side in (source, target):
        load_subwords(side.model)
    return Vocabulary(source, target, "marian" if codes else "none", languages)


def _numbered(path: Path) -> list[str]:
    """The symbols of a file that numbers them."""
    numbers = read_json(path)
    by_number = {number: symbol for symbol, number in numbers.items() if type(number) is int}
    if sorted(by_number) != list(range(len(numbers))):
        raise InputError(f"{path}: does not number its {len(numbers)} symbols from 0 on; it is damaged")
    symbols = [by_number[number] for number in range(len(numbers))]
    for symbol in (PAD, EOS, UNK):
        if symbol not in numbers:
            raise InputError(f"{path}: lacks the symbol {symbol}")
    for symbol in symbols:
        if _UNWRITABLE.search(symbol):
            raise InputError(f"{path}: the symbol {symbol!r} cannot be in a dictionary of fairseq's")
    return symbols


def _languages(
    folder: Path, given: Sequence[Any], codes: Sequence[str], is_told_source: bool = True
) -> tuple[str, str]:
    """The two languages, which the model must have where it is told them."""
    sides = (("--source-lang", is_told_source), ("--target-lang", True))
    for (option, is_told), language in zip(sides, given, strict=True):
        if not isinstance(language, str) or not _LANGUAGE.fullmatch(language):
            raise InputError(f"{option}: {folder} does not say a language ({shown(language)}); give it")
        if is_told and codes and language not in codes:
            raise InputError(f"{option} {language}: the model in {folder} does not have it; it has {', '.join(codes)}")
    if given[0] == given[1]:
        raise InputError(f"--target-lang {given[1]}: is the source language too; give two languages")
    return given[0], given[1]
