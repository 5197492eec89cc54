"""Domains of sentences to translate: by --domain-source, or typed as a tag in front of the text."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fairseq_ext.base.domain_names import BASE_ROUTE, domain_tag, is_domain_tag
from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.data.language_tokens import LanguageDictionary
from fairseq_ext.data.teacher_labels import TeacherLabels
from fairseq_ext.models.adapter_transformer import NO_ADAPTER
from fairseq_ext.tasks.translation_options import CLASSIFIER, NONE, ORACLE, SOFT, UNIFORM, MultiDomainTranslationConfig

# The domain of all sentences of a corpus or of each, and weights of all domains instead.
Routing = tuple[np.ndarray | int | None, TeacherLabels | np.ndarray | None]
_TAGGED_LINE = re.compile(r"\s*<domain:([^<>\s]+)>\s*(.*)", re.DOTALL)


def routing_of(
    cfg: MultiDomainTranslationConfig,
    domains: list[str],
    domain_id: int,
    labels: TeacherLabels | None,
    num_rows: int,
    needs_domains: bool,
) -> Routing:
    """Return the domains for translating a validation or test corpus, or weights of all domains.

    Args:
        domain_id: the corpus's own domain.
        labels: labels of its sentences by a classifier.
        needs_domains: whether the model has plain adapters.
    """
    source, number = str(cfg.domain_source), len(domains)
    if cfg.domain:
        return NO_ADAPTER if cfg.domain == BASE_ROUTE else domains.index(cfg.domain), None
    if source in (CLASSIFIER, SOFT):
        if labels is None:
            raise InputError(f"--domain-source {source}: needs the classifier's labels; set --teacher-dir")
        return (None, replace(labels, num_used=number)) if source == SOFT else (_best(cfg, number, labels), None)
    if source == UNIFORM:
        return None, np.broadcast_to(uniform_weights(number), (num_rows, number))
    if source == NONE and needs_domains:
        raise InputError(
            "plain adapters need a domain; set --domain-source to oracle or classifier, or set --domain NAME"
        )
    return (domain_id if source == ORACLE else None), None


def _best(cfg: MultiDomainTranslationConfig, num_domains: int, labels: TeacherLabels) -> np.ndarray:
    """Return the domain of each sentence; models that read tags have no base, and take the likeliest domain."""
    if cfg.domain_tags:
        return replace(labels, num_used=num_domains)[:].argmax(1)
    best = labels.best(cfg.least_certainty)
    return np.where((best >= 0) & (best < num_domains), best, NO_ADAPTER)


def uniform_weights(num_domains: int) -> np.ndarray:
    """Return D equal weights."""
    return np.full(num_domains, 1 / num_domains, dtype=np.float32)


class TypedDomains:
    """Reads and writes tags ``<domain:NAME>``, in text and in tokens.

    Between input and translation, fairseq keeps only the tokens of a sentence. The domain is therefore one of them, and
    no state is shared between threads. A domain added after the dictionary was built has no symbol in it, and gets an
    index after all symbols. No model sees such an index: models that read tags require all symbols, and tags are
    removed for other models.

    Args:
        domains: D names.
        may_be_base: whether a sentence can have the tag ``<domain:base>``, whose number is D.
    """

    def __init__(self, domains: Sequence[str], dictionary: LanguageDictionary, may_be_base: bool = False):
        self.domains, self.dictionary = [*domains, *([BASE_ROUTE] if may_be_base else [])], dictionary
        tags = [domain_tag(name) for name in self.domains]
        self.indices = [
            dictionary.index(tag) if tag in dictionary else len(dictionary) + number for number, tag in enumerate(tags)
        ]

    def require(self, file: Path) -> None:
        """Check that the dictionary has a tag for every domain, for models that read tags."""
        for name, index in zip(self.domains, self.indices, strict=True):
            if index >= len(self.dictionary):
                raise InputError(
                    f"{file}: has no tag {domain_tag(name)}; prepare the data again with this list of domains"
                )

    def split_line(self, line: str) -> tuple[str | None, str]:
        """Split a line into the domain typed in front, or None, and the rest."""
        match = _TAGGED_LINE.fullmatch(line)
        if match is None:
            return None, line
        check_choice(match[1], self.domains, repr(line.strip()))
        return match[1], match[2]

    def as_text(self, tokens: Tensor, text: str) -> Tensor:
        """Replace special symbols in the tokens of a typed text by ``<unk>``; raise InputError for domain tags.

        SentencePiece normalises full-width letters to ASCII and copies unknown characters, so text can contain them.
        """
        for token in tokens.tolist():
            if is_domain_tag(symbol := self.dictionary[token]):
                raise InputError(
                    f"{text.strip()!r}: contains {symbol}, a reserved symbol; type it only at the beginning of a line"
                )
        marks = [self.dictionary.bos(), self.dictionary.pad(), self.dictionary.eos(), *self.dictionary.reserved]
        special = tokens.new_tensor(marks)
        is_special = torch.isin(tokens, special)
        is_special[-1] = False  # end of sentence
        return tokens.masked_fill(is_special, self.dictionary.unk())

    def tag(self, tokens: Tensor, domain: str | None) -> Tensor:
        """Prepend a domain's tag to a sentence's tokens, unless it already has a tag."""
        if domain is None or int(tokens[0]) in self.indices:
            return tokens
        return torch.cat([tokens.new_tensor([self.indices[self.domains.index(domain)]]), tokens])

    def read(self, src_tokens: Tensor) -> Tensor:
        """Return the domain of each row from its first token, -1 for none: B×S → B."""
        first = src_tokens.gather(1, self._first(src_tokens))
        tags = src_tokens.new_tensor(self.indices)
        is_tag = first.eq(tags)  # B×D
        return torch.where(is_tag.any(1), is_tag.int().argmax(1), -1)

    def take_off(self, src_tokens: Tensor) -> Tensor:
        """Replace tags by padding, which is equivalent to removing them: B×S → B×S."""
        first = self._first(src_tokens)
        kept = src_tokens.gather(1, first).masked_fill(self.read(src_tokens).ge(0).unsqueeze(1), self.dictionary.pad())
        return src_tokens.scatter(1, first, kept)

    def _first(self, src_tokens: Tensor) -> Tensor:
        """Return the position of each row's first token: B×1."""
        return src_tokens.ne(self.dictionary.pad()).int().argmax(1, keepdim=True)
