"""What filters have learned from the corpora: lengths of translations, and evidence by words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fairseq_ext.filtering.length_ratios import LengthRatios
from fairseq_ext.filtering.lexical_evidence import LexicalEvidence
from fairseq_ext.inputs.errors import InputError

DICTIONARY_FILE, EVIDENCE_FILE, LENGTHS_FILE = "dictionary.tsv", "evidence.json", "lengths.json"


@dataclass(frozen=True)
class Learned:
    """The folder that :mod:`fairseq_ext.filtering.learn` has written; each file is read when a filter asks for it."""

    folder: Path | None = None

    @cached_property
    def lengths(self) -> LengthRatios:
        """Usual length ratios."""
        return LengthRatios.read(self._folder / LENGTHS_FILE)

    @cached_property
    def evidence(self) -> LexicalEvidence:
        """Evidence of words for and against a pair."""
        return LexicalEvidence.read(self._folder / EVIDENCE_FILE)

    @property
    def has_evidence(self) -> bool:
        """Whether evidence of words was learned."""
        return (self._folder / EVIDENCE_FILE).is_file()

    @property
    def _folder(self) -> Path:
        if self.folder is None:
            raise InputError("clean: filters: completeness, dictionary: nothing was learned from the corpora")
        return self.folder
