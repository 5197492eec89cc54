"""Subwords, dictionaries and language tokens of a Hugging Face translation model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.convert.hugging_face import check_fixed
from fairseq_ext.convert.sentencepiece_models import bpe_of_tokenizer, unigram_of_tokenizer
from fairseq_ext.convert.tokenizer_checks import (
    PLAIN_CLASSES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    check_class,
    check_same_pieces,
    refuse_added_tokens,
    tokenizer_config,
)
from fairseq_ext.data.language_tokens import STYLES
from fairseq_ext.modules.pretrained import read_json
from fairseq_ext.text.subwords import MODEL_FILE, dictionary_pieces, encode_lines, load_subwords
from fairseq_ext.text.text_files import write_lines

VOCAB_FILE, TARGET_VOCAB_FILE = "vocab.json", "target_vocab.json"
SOURCE_MODEL, TARGET_MODEL, JOINT_MODEL = "source.spm", "target.spm", "sentencepiece.bpe.model"
_CLASSES = {
    **{"marian": "MarianTokenizer", "m2m": "M2M100Tokenizer", "nllb": "NllbTokenizer"},
    **{"mbart": "MBartTokenizer", "mbart50": "MBart50Tokenizer"},
}
# All possible vocabulary files of a folder.
TEXT_FILES = (
    *(TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, VOCAB_FILE, TARGET_VOCAB_FILE),
    *(SOURCE_MODEL, TARGET_MODEL, JOINT_MODEL),
)
_SPECIAL, MASK = ("<s>", "<pad>", "</s>", "<unk>"), "<mask>"
# Embeddings may be padded to a multiple of 64.
_MOST_UNUSED = 63
_LANGUAGE = re.compile(r"\w+")
# Line breaks and surrogates.
_UNWRITABLE = re.compile(r"[\r\n\ud800-\udfff]")
_MARIAN_CODE = re.compile(r">>(\w+)<<")
# Language codes in tokenizer.json.
_CODE = re.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]+")
# Languages of models without tokenizer.json, in the order of their numbers.
_MBART = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
)
_LISTS = {
    "mbart": _MBART,
    "mbart50": f"{_MBART} af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF "
    "pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI",
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht "
        "hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl "
        "ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}


@dataclass(frozen=True)
class Side:
    """The symbols and the SentencePiece model of one side."""

    symbols: Sequence[str]  # in Hugging Face's order
    model: bytes  # bytes of the SentencePiece model

    def order(self) -> list[int | None]:
        """Return Hugging Face's symbol numbers in fairseq's order; None for a symbol that the model lacks."""
        numbers: dict[str, int | None] = {symbol: number for number, symbol in enumerate(self.symbols)}
        first = [numbers.pop(symbol, None) for symbol in _SPECIAL]
        return [*first, *numbers.values()]

    def padded(self, rows: Any, where: Path) -> Side:
        """Return the side with placeholder names for unused rows of the embeddings."""
        unused = rows - len(self.symbols) if type(rows) is int else -1
        if not 0 <= unused <= _MOST_UNUSED:
            raise InputError(
                f"{where}: vocab_size is {shown(rows)}, but the tokenizer has {len(self.symbols)} symbols; give "
                "the tokenizer of this model"
            )
        return Side([*self.symbols, *(f"madeupword{number:04d}" for number in range(unused))], self.model)

    def write_dictionary(self, path: Path) -> None:
        """Write ``dict.LANG.txt``."""
        write_lines(path, (f"{symbol} 1" for symbol in self.symbols if symbol not in _SPECIAL))


@dataclass(frozen=True)
class TranslationVocabulary:
    """The vocabulary of both sides, and the style of language tokens."""

    source: Side
    target: Side
    style: str  # one of fairseq_ext.data.language_tokens.STYLES, or none
    languages: tuple[str, str]

    @property
    def options(self) -> list[str]:
        """Options of fairseq's commands for the languages and their tokens."""
        source, target = self.languages
        told = [] if self.style == "none" else ["--language-tokens", self.style]
        return ["--source-lang", source, "--target-lang", target, *told]

    def write(self, folder: Path) -> None:
        """Write dictionaries and SentencePiece models."""
        for side, language in zip((self.source, self.target), self.languages, strict=True):
            side.write_dictionary(folder / f"dict.{language}.txt")
        (folder / MODEL_FILE).write_bytes(self.source.model)
        if self.target.model != self.source.model:
            (folder / f"sentencepiece.{self.languages[1]}.model").write_bytes(self.target.model)


def read_vocabulary(folder: Path, family: str, languages: Sequence[str | None]) -> TranslationVocabulary:
    """Read the vocabulary of a model.

    Args:
        folder: Hugging Face folder.
        family: ``marian``, ``m2m``, ``nllb``, ``mbart`` or ``mbart50``.
        languages: source and target; None to read it from ``tokenizer_config.json``.
    """
    config = tokenizer_config(folder)
    check_class(folder, [_CLASSES[family], *(PLAIN_CLASSES if (folder / TOKENIZER_FILE).is_file() else ())])
    # The legacy form has the language at the end of sentences.
    check_fixed(config, {"legacy_behaviour": False}, folder / TOKENIZER_CONFIG_FILE)
    names = ("source_lang", "target_lang") if family == "marian" else ("src_lang", "tgt_lang")
    chosen = [language or config.get(name) for language, name in zip(languages, names, strict=True)]
    if family == "marian":
        refuse_added_tokens(folder, ())
        return _read_marian(folder, config, chosen)
    style = "m2m" if family == "nllb" else family
    symbols, codes = _named_languages(folder, family, config)
    languages = _languages(folder, chosen, codes)
    # Language symbols renamed as in fairseq.
    renamed = {(f"__{code}__" if family == "m2m" else code): STYLES[style].symbol(code) for code in codes}
    refuse_added_tokens(folder, {*_SPECIAL, MASK, *renamed})
    model = _model(folder, [symbol for symbol in symbols if symbol not in renamed and symbol != MASK])
    check_same_pieces(folder, partial(encode_lines, load_subwords(folder / JOINT_MODEL, data=model)), False)
    side = Side([renamed.get(symbol, symbol) for symbol in symbols], model)
    return TranslationVocabulary(side, side, style, languages)


def _named_languages(folder: Path, family: str, config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the symbols of a multilingual model by number, and its language codes."""
    path = folder / TOKENIZER_FILE
    if family == "m2m":
        codes = _LISTS.get(str(config.get("language_codes", "m2m100")), "").split()
        return [*_numbered(folder / VOCAB_FILE), *(f"__{code}__" for code in codes)], codes
    if path.is_file():
        symbols = _numbered_by_tokenizer(path)
        return symbols, [symbol for symbol in symbols if _CODE.fullmatch(symbol)]
    if family == "nllb":
        raise InputError(f"{path}: not found; NLLB-200 needs this file, which lists its languages")
    codes = _LISTS[family].split()
    return [*_SPECIAL, *dictionary_pieces(load_subwords(folder / JOINT_MODEL)), *codes, MASK], codes


def _numbered_by_tokenizer(path: Path) -> list[str]:
    """Return the symbols of a ``tokenizer.json`` by number."""
    content = read_json(path)
    try:
        vocab = content["model"]["vocab"]
        numbers = dict(vocab) if isinstance(vocab, dict) else {symbol: n for n, (symbol, _) in enumerate(vocab)}
        numbers |= {token["content"]: token["id"] for token in content["added_tokens"]}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: is not a tokenizer ({type(error).__name__}: {error})") from None
    return in_order(numbers, path)


def _model(folder: Path, symbols: Sequence[str]) -> bytes:
    """Return the folder's SentencePiece model, or one converted from ``tokenizer.json``."""
    path = folder / TOKENIZER_FILE
    if (folder / JOINT_MODEL).is_file() or not path.is_file():
        return check_own_pieces(folder / JOINT_MODEL, symbols).read_bytes()
    content = read_json(path)
    if isinstance(content["model"]["vocab"], dict):
        return bpe_of_tokenizer(content, symbols[len(_SPECIAL) :], path)
    known = set(symbols)
    vocab = [entry for entry in content["model"]["vocab"] if entry[0] in known]
    return unigram_of_tokenizer({**content, "model": {"vocab": vocab}}, path).model


def _read_marian(folder: Path, config: Mapping[str, Any], languages: Sequence[Any]) -> TranslationVocabulary:
    symbols = _numbered(folder / VOCAB_FILE)
    targets = _numbered(folder / TARGET_VOCAB_FILE) if config.get("separate_vocabs") else symbols
    sides = ((symbols, folder / SOURCE_MODEL), (targets, folder / TARGET_MODEL))
    source, target = (Side(known, check_own_pieces(path, known).read_bytes()) for known, path in sides)
    return marian_vocabulary(source, target, languages, folder)


def marian_vocabulary(source: Side, target: Side, given: Sequence[Any], folder: Path) -> TranslationVocabulary:
    """Return the vocabulary of a Marian model, which may have symbols ``>>deu<<`` for target languages."""
    codes = [match[1] for symbol in source.symbols if (match := _MARIAN_CODE.fullmatch(symbol))]
    languages = _languages(folder, given, codes, is_told_source=False)
    return TranslationVocabulary(source, target, "marian" if codes else "none", languages)


def _numbered(path: Path) -> list[str]:
    """Return the symbols of a vocabulary file by number."""
    return in_order(read_json(path), path)


def in_order(numbers: Mapping[str, Any], path: Path) -> list[str]:
    """Return symbols by number, after checking that a fairseq dictionary can hold them."""
    by_number = {number: symbol for symbol, number in numbers.items() if type(number) is int}
    if sorted(by_number) != list(range(len(numbers))):
        raise InputError(
            f"{path}: the numbers of its {len(numbers)} symbols are not 0, 1, 2 and so on; the file is damaged"
        )
    symbols = [by_number[number] for number in range(len(numbers))]
    for symbol in symbols:
        if _UNWRITABLE.search(symbol):
            raise InputError(
                f"{path}: the symbol {symbol!r} has a line break or a lone surrogate, which fairseq does not support"
            )
    return symbols


def check_own_pieces(path: Path, symbols: Sequence[str], data: bytes | None = None) -> Path:
    """Check that a SentencePiece model, with these or the path's bytes, belongs to the symbols; return its path."""
    pieces = dictionary_pieces(load_subwords(path, data=data))
    if 2 * len(set(symbols).intersection(pieces)) < len(pieces):
        raise InputError(
            f"{path}: most of its {len(pieces)} pieces are unknown to the model; give the file of this model"
        )
    return path


def _languages(
    folder: Path, given: Sequence[Any], codes: Sequence[str], is_told_source: bool = True
) -> tuple[str, str]:
    """Return the two languages after checking that the model supports them."""
    sides = (("--source-lang", is_told_source), ("--target-lang", True))
    for (option, is_told), language in zip(sides, given, strict=True):
        if not isinstance(language, str) or not _LANGUAGE.fullmatch(language):
            raise InputError(
                f"{option}: expected a language code, got {shown(language)} from the option or {folder}; give one"
            )
        if is_told and codes and language not in codes:
            raise InputError(f"{option} {language}: unknown to the model in {folder}; choose one of {', '.join(codes)}")
    if given[0] == given[1]:
        raise InputError(f"--target-lang {given[1]}: is also the source language; give two different languages")
    return given[0], given[1]
