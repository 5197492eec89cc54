"""The domain of a sentence that is typed or passed from Python, carried by a tag in front of its tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from fairseq_ext.data.language_tokens import LanguageDictionary
from fairseq_ext.inputs.domain_names import domain_tag, is_domain_tag
from fairseq_ext.inputs.errors import InputError, check_choice

_TAGGED_LINE = re.compile(r"\s*<domain:([^<>\s]+)>\s*(.*)", re.DOTALL)


class TypedDomains:
    """Reads and writes tags ``<domain:NAME>``, in text and in tokens.

    Between typing and translating fairseq keeps nothing of a sentence but its tokens; so the domain is one of them,
    and no state is needed that threads would share. A domain that is younger than the dictionary has no symbol there;
    its number is then one behind all symbols. Models that read tags never see it, nor do others, from whose input tags
    are taken off.
    """

    def __init__(self, domains: Sequence[str], dictionary: LanguageDictionary):
        self.domains, self.dictionary = domains, dictionary
        tags = [domain_tag(name) for name in domains]
        self.indices = [
            dictionary.index(tag) if tag in dictionary else len(dictionary) + number for number, tag in enumerate(tags)
        ]

    def require(self, file: Path) -> None:
        """Check that there is a tag for every domain in the dictionary's file, for models that read it."""
        for name, index in zip(self.domains, self.indices, strict=True):
            if index >= len(self.dictionary):
                raise InputError(f"{file}: lacks the tag {domain_tag(name)}; prepare the data with this domain list")

    def split_line(self, line: str) -> tuple[str | None, str]:
        """The domain typed in front of a line, or None; and the rest of the line."""
        match = _TAGGED_LINE.fullmatch(line)
        if match is None:
            return None, line
        check_choice(match[1], self.domains, repr(line.strip()))
        return match[1], match[2]

    def as_text(self, tokens: Tensor, text: str) -> Tensor:
        """The tokens of a typed text, in which no symbol may be that the program alone sets.

        SentencePiece takes full-width letters for ordinary ones, and gives the text of characters that it lacks.
        """
        for token in tokens.tolist():
            if is_domain_tag(symbol := self.dictionary[token]):
                raise InputError(
                    f"{text.strip()!r}: holds {symbol}, a reserved symbol; it may only open a line, as it is"
                )
        marks = [self.dictionary.bos(), self.dictionary.pad(), self.dictionary.eos(), *self.dictionary.reserved]
        special = tokens.new_tensor(marks)
        is_special = torch.isin(tokens, special)
        is_special[-1] = False  # the end of the sentence
        return tokens.masked_fill(is_special, self.dictionary.unk())

    def tag(self, tokens: Tensor, domain: str | None) -> Tensor:
        """Put a domain's tag in front of a sentence's tokens, unless there is one already."""
        if domain is None:
            return tokens
        if int(tokens[0]) in self.indices:
            return tokens
        return torch.cat([tokens.new_tensor([self.indices[self.domains.index(domain)]]), tokens])

    def read(self, src_tokens: Tensor) -> Tensor:
        """The domain of each row by its first token, -1 for none: B×S → B."""
        first = src_tokens.gather(1, self._first(src_tokens))
        tags = src_tokens.new_tensor(self.indices)
        is_tag = first.eq(tags)  # B×D
        return torch.where(is_tag.any(1), is_tag.int().argmax(1), -1)

    def take_off(self, src_tokens: Tensor) -> Tensor:
        """Replace tags by padding, which is the same as taking them away; B×S → B×S."""
        first = self._first(src_tokens)
        kept = src_tokens.gather(1, first).masked_fill(self.read(src_tokens).ge(0).unsqueeze(1), self.dictionary.pad())
        return src_tokens.scatter(1, first, kept)

    def _first(self, src_tokens: Tensor) -> Tensor:
        """B×1, the position of each row's first token."""
        return src_tokens.ne(self.dictionary.pad()).int().argmax(1, keepdim=True)
