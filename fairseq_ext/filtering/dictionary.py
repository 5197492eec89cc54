"""The filter that asks word translations: does the other side hold what this side says?

The list of translations is given, or learned from the corpus itself (:mod:`fairseq_ext.filtering.model_1`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_ext.corpora.languages import has_spaces
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.batch import Batch, Reasons
from fairseq_ext.filtering.limits import check_limit
from fairseq_ext.filtering.word_list import known_targets, load_word_list, stems
from fairseq_ext.filtering.word_support import WordSupport, load_support, supported_words
from fairseq_ext.inputs.errors import InputError

DICTIONARY_FILE, SUPPORT_FILE = "dictionary.tsv", "support.json"


@dataclass(frozen=True)
class Dictionary:
    """Drops pairs whose words say that they are no translations.

    Looked at are the different words of both sides that the list knows, a word being a run of letters and digits,
    case folded, of which the first six count. It is of no use for languages without spaces between words.

    Attributes:
        word_list: file of lines ``source<TAB>target``, or with a probability as the third column, which is not
            used; left out, a list is learned from the corpora.
        max_evidence: most evidence against a pair (:mod:`fairseq_ext.filtering.word_support`), in natural units of
            information: 6.5 is one to 665. Words count by how reliably they are translated in the corpora,
            and a short pair without any translation may pass. None: it does not matter.
        min_share: least share of the known words that have a translation, whatever words these are. None: it does
            not matter.
        min_words: for ``min_share``, pairs with fewer known words (both sides together) pass.
        sentences: at most so many pairs are learned from.
        learned: folder that :mod:`fairseq_ext.filtering.learn` has written.
    """

    word_list: str | None = None
    max_evidence: float | None = 6.5
    min_share: float | None = None
    min_words: int = 4
    sentences: int = 200_000
    learned: str | None = field(default=None, metadata={"in_file": False})

    def __post_init__(self) -> None:
        if self.max_evidence is not None:
            check_limit("max_evidence", self.max_evidence, 0)
        if self.min_share is not None and not 0 < self.min_share <= 1:
            raise InputError(f"min_share: {self.min_share} is no share; give more than 0, at most 1")
        if self.min_share is None and self.max_evidence is None:
            raise InputError("dictionary: max_evidence and min_share are both null; give one, or leave the filter out")
        for name in ("min_words", "sentences"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: {getattr(self, name)} is too small; give 1 or more")

    def reasons(self, batch: Batch) -> Reasons:
        """See :data:`~fairseq_ext.filtering.batch.Reasons`.

        Raises:
            InputError: if a language does not separate its words, or the list cannot be read, or there is none.
        """
        for lang in batch.langs:
            if not has_spaces(lang):
                raise InputError(f"dictionary: {lang} has no spaces between words; leave this filter out")
        if self.word_list is not None:
            load_word_list(self.word_list)  # an unreadable one is found before long work begins
        if not batch.pairs:
            return []  # it may be still to be learned
        reasons: Reasons = [None] * len(batch)
        if self.min_share is not None:
            path = self._word_list()
            translations, targets = load_word_list(path), known_targets(path)
            reasons = [self._judge_share(pair, translations, targets) for pair in batch.pairs]
        if self.max_evidence is not None:
            support = load_support(self._learned(SUPPORT_FILE))
            reasons = [
                reason or self._judge_evidence(pair, support) for pair, reason in zip(batch.pairs, reasons, strict=True)
            ]
        return reasons

    def _word_list(self) -> str:
        return self.word_list or self._learned(DICTIONARY_FILE)

    def _learned(self, name: str) -> str:
        if self.learned is None:
            raise InputError("dictionary: nothing was learned from the corpora; give word_list and min_share alone")
        return str(Path(self.learned) / name)

    def _judge_evidence(self, pair: Pair, support: WordSupport) -> str | None:
        assert self.max_evidence is not None
        evidence = support.evidence(pair)
        return f"evidence of {evidence:.1f} against it by its words" if evidence > self.max_evidence else None

    def _judge_share(self, pair: Pair, translations: Mapping[str, set[str]], targets: set[str]) -> str | None:
        assert self.min_share is not None
        sources, others = translations.keys() & stems(pair.source), targets & stems(pair.target)
        known = len(sources) + len(others)
        if known < self.min_words:
            return None
        translated = sum(map(len, supported_words(sources, others, translations)))
        if translated >= self.min_share * known:
            return None
        return f"{translated} of {known} known words translated"
