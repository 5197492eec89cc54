"""The filter that asks word translations: does the other side hold what this side says?

The list of translations is given, or learned from the corpus itself (:mod:`fairseq_ext.cleaning.model_1`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from fairseq_ext.cleaning.filter import Batch, Filter
from fairseq_ext.cleaning.lexical_evidence import (
    EVIDENCE_FILE,
    LexicalEvidence,
    Sides,
    stems,
    stems_of,
    supported_words,
)
from fairseq_ext.corpora.languages import has_spaces
from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import Number

_LEAST_KNOWN = 4


class Dictionary(Filter):
    """Drops pairs whose words say that they are no translations.

    Looked at are the different words of both sides that the list knows, a word being a run of letters and digits,
    case folded, of which the first six count. It is of no use for languages without spaces between words.
    """

    removed_keys: ClassVar[Mapping[str, str]] = {"min_words": "pairs with fewer than four known words pass"}

    word_list: str | None = None
    """File of lines ``source<TAB>target``, or with a probability as the third column, which is not used; left out,
    a list is learned from the corpora."""
    max_evidence: Annotated[Number, Field(ge=0)] | None = 6.5
    """Most evidence against a pair (:mod:`fairseq_ext.cleaning.lexical_evidence`), in natural units of information:
    6.5 is one to 665. Words count by how reliably they are translated in the corpora, and a short pair without any
    translation may pass. None: it does not matter."""
    min_share: Annotated[Number, Field(gt=0, le=1)] | None = None
    """Least share of the known words that have a translation, whatever words these are; pairs with fewer than four
    (both sides together) pass. None: it does not matter."""
    sentences: Annotated[int, Field(ge=1)] = 200_000
    """At most so many pairs are learned from."""

    def check(self, langs: tuple[str, str]) -> None:
        for lang in langs:
            if not has_spaces(lang):
                raise InputError(f"dictionary: {lang} has no spaces between words; leave this filter out")
        if self.word_list is not None:
            read_word_list(Path(self.word_list))

    def reasons(self, batch: Batch) -> Iterator[str | None]:
        evidence = batch.learned.load(EVIDENCE_FILE, LexicalEvidence.read)
        return (self._reason(stems_of(pair), evidence) for pair in batch.pairs)

    def _reason(self, sides: Sides, evidence: LexicalEvidence) -> str | None:
        if self.min_share is not None:
            translated = sum(map(len, supported_words(sides, evidence.translations)))
            known = sum(len(words.keys() & side) for words, side in zip(evidence.missing, sides, strict=True))
            if known >= _LEAST_KNOWN and translated < self.min_share * known:
                return f"{translated} of {known} known words translated"
        if self.max_evidence is not None and (against := evidence.of(sides)) > self.max_evidence:
            return f"evidence of {against:.1f} against it by its words"
        return None


def read_word_list(path: Path) -> dict[str, set[str]]:
    """Read a word list: of each source word its translations, cut to their first letters.

    Entries of several words are left out, since words are looked up one by one.
    """
    translations: dict[str, set[str]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) not in (2, 3) or not all(column.strip() for column in columns):
            raise InputError(f"{path}, line {number}: expected source<TAB>target, got {line[:80]!r}")
        source, target = set(stems(columns[0])), set(stems(columns[1]))
        if len(source) == len(target) == 1:
            translations.setdefault(source.pop(), set()).update(target)
    if not translations:
        raise InputError(f"{path}: holds no entry of one word and its translation")
    return translations
