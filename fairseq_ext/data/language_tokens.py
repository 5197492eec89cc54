"""Language tokens of multilingual models, and their positions as in fairseq's tasks for those models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.data import AppendTokenDataset, Dictionary, LanguagePairDataset, PrependTokenDataset
from torch import Tensor

from fairseq_ext.base.errors import InputError


@dataclass(frozen=True)
class LanguageStyle:
    """Form and position of the language tokens of a family of models.

    Attributes:
        form: format string of a token, for the language's name.
        is_last: whether the token ends sentences and starts decoding, instead of beginning sentences.
        has_mask: whether the dictionary ends with ``<mask>``.
        is_for_source: whether the only token is that of the target language, at the beginning of the source.
    """

    form: str
    is_last: bool
    has_mask: bool
    is_for_source: bool = False

    def symbol(self, language: str) -> str:
        """Return the dictionary's symbol of a language."""
        return self.form.format(language)


# As in fairseq's tasks translation_from_pretrained_bart (mbart), and translation_multi_simple_epoch with
# --encoder-langtok src --decoder-langtok and --lang-tok-style mbart (mbart50) or multilingual (m2m). The last is that
# of Marian's models.
STYLES = {
    "mbart": LanguageStyle("[{}]", is_last=True, has_mask=True),
    "mbart50": LanguageStyle("[{}]", is_last=False, has_mask=True),
    "m2m": LanguageStyle("__{}__", is_last=False, has_mask=False),
    "marian": LanguageStyle(">>{}<<", is_last=False, has_mask=False, is_for_source=True),
}


def read_language_tokens(path: Path) -> tuple[str, tuple[str, str]]:
    """Read ``language-tokens.txt`` of a data directory: the style and the model's names of both languages."""
    try:
        words = path.read_text(encoding="utf-8").split()
    except UnicodeDecodeError:
        words = []
    if len(words) != 3 or words[0] not in STYLES:
        raise InputError(f"{path}: expected STYLE SOURCE TARGET, such as m2m en de; styles are {', '.join(STYLES)}")
    return words[0], (words[1], words[2])


class CutText(str):
    """Text in subwords of the source language; ``text`` is the original text."""

    text: str

    def __new__(cls, subwords: str, text: str) -> CutText:
        own = super().__new__(cls, subwords)
        own.text = text
        return own


class LanguageDictionary(Dictionary):
    """A dictionary with reserved symbols, which are never printed.

    Attributes:
        reserved: indices of reserved symbols.
        cut: function that segments text into this dictionary's subwords; None if they are those of the source.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.reserved: set[int] = set()
        self.cut: Callable[[str], str] | None = None

    def encode_line(self, line: str, *args: Any, **kwargs: Any) -> Any:
        """Encode a line; constraints and given translations, which fairseq segments as a source, are resegmented."""
        if self.cut is not None and isinstance(line, CutText):
            line = self.cut(line.text)
        return super().encode_line(line, *args, **kwargs)

    def add_languages(self, style: LanguageStyle, languages: list[str]) -> None:
        """Add missing languages, in the order of fairseq's tasks, and ``<mask>`` if the style has it."""
        mask = ["<mask>"] if style.has_mask else []
        self.reserved |= {self.add_symbol(symbol) for symbol in [*map(style.symbol, languages), *mask]}

    def string(
        self, tensor: Any, bpe_symbol: Any = None, escape_unk: bool = False, extra_symbols_to_ignore: Any = None,
        *args: Any, **kwargs: Any,
    ) -> str:  # fmt: skip
        """Convert tokens to text as fairseq does, without reserved symbols and indices outside the dictionary."""
        if torch.is_tensor(tensor) and tensor.dim() == 1:
            tensor = tensor[tensor < len(self)]
        ignored = {*(extra_symbols_to_ignore or ()), *self.reserved}
        return super().string(tensor, bpe_symbol, escape_unk, ignored, *args, **kwargs)


@dataclass(frozen=True)
class LanguageTokens:
    """Adds the tokens of a language pair where a model expects them.

    Attributes:
        source: index of the source's token; None for models without language tokens.
        target: index of the target's token; None for no target token.
        is_last: whether the tokens end sentences, see :class:`LanguageStyle`.
    """

    source: int | None = None
    target: int | None = None
    is_last: bool = False

    @property
    def prefix(self) -> int | None:
        """The token that every translation must begin with; None for none."""
        return None if self.is_last else self.target

    @property
    def end(self) -> int | None:
        """The token that starts and ends decoding instead of ``</s>``; None for ``</s>``."""
        return self.target if self.is_last else None

    def add_to_source(self, tokens: Tensor) -> Tensor:
        """Add the source's language token to a source sentence that ends with ``</s>``."""
        return self._add(tokens, self.source)

    def add_to_target(self, tokens: Tensor) -> Tensor:
        """Add the target's language token to a target sentence that ends with ``</s>``."""
        return self._add(tokens, self.target)

    def add_to_pairs(self, pairs: LanguagePairDataset) -> LanguagePairDataset:
        """Add the language tokens to all sentence pairs of a dataset."""
        if self.source is None:
            return pairs
        wrap = AppendTokenDataset if self.is_last else PrependTokenDataset
        source = wrap(pairs.src, self.source)
        target = pairs.tgt if pairs.tgt is None or self.target is None else wrap(pairs.tgt, self.target)
        return LanguagePairDataset(
            source, source.sizes, pairs.src_dict, target, None if target is None else target.sizes, pairs.tgt_dict,
            left_pad_source=pairs.left_pad_source,
            left_pad_target=pairs.left_pad_target,
            eos=self.end,
            pad_to_multiple=pairs.pad_to_multiple,
        )  # fmt: skip

    def _add(self, tokens: Tensor, token: int | None) -> Tensor:
        if token is None:
            return tokens
        added = tokens.new_tensor([token])
        return torch.cat([tokens, added] if self.is_last else [added, tokens])


def language_tokens(
    style: str, languages: tuple[str, str], source: LanguageDictionary, target: LanguageDictionary
) -> LanguageTokens:
    """Return the language tokens of a language pair."""
    if style == "none":
        return LanguageTokens()
    if STYLES[style].is_for_source:
        return LanguageTokens(_number(style, languages[1], source))
    numbers = [_number(style, *side) for side in zip(languages, (source, target), strict=True)]
    return LanguageTokens(numbers[0], numbers[1], STYLES[style].is_last)


def _number(style: str, language: str, dictionary: LanguageDictionary) -> int:
    """Return the index of a language's token, and reserve it so that it is never printed."""
    symbol = STYLES[style].symbol(language)
    if symbol not in dictionary:
        raise InputError(
            f"--language-tokens {style}: the dictionary of {language} lacks {symbol}; list all languages of "
            "the pretrained model in --langs, in its order, and name the data's languages as it does"
        )
    number: int = dictionary.index(symbol)
    dictionary.reserved.add(number)
    return number
