"""The filter that finds a part missing on one side: a half, the last sentence, or what was appended to the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.filter import SIDES, Batch, Filter
from fairseq_ext.filtering.length_ratios import count_characters
from fairseq_ext.filtering.lexical_evidence import LexicalEvidence

_FINAL_MARK = re.compile(r"[.!?…。！？।؟۔][\s\"'”’»«)\]]*$").search
# What else speaks for a missing part, in deviations: that the shorter side lacks the mark that ends the longer one, and
# that the last words of the longer one have no translation; these by a third of their evidence, as far as it goes.
_NO_MARK = 1.5
_PER_EVIDENCE = 1 / 3
_MAX_EVIDENCE = 5.0


@dataclass(frozen=True)
class Score:
    """How far a pair is from the usual length, and what else speaks for a missing part.

    Attributes:
        deviations: of its length ratio.
        shorter: the side that is too short: 0 is the source.
        lacks_mark: whether only the longer side has a final mark.
        evidence: that the last words of the longer side have no translation.
    """

    deviations: float
    shorter: int = 0
    lacks_mark: bool = False
    evidence: float = 0.0

    @property
    def total(self) -> float:
        return self.deviations + _NO_MARK * self.lacks_mark + _PER_EVIDENCE * self.evidence


_COMPLETE = Score(0.0)


@dataclass(frozen=True)
class Completeness(Filter):
    """Drops pairs of which one side is shorter than it should be, by what such pairs of the corpora have.

    Counted are deviations of the logarithm of the ratio of characters from its median among pairs of that length
    (:mod:`fairseq_ext.filtering.length_ratios`); more of them, if the longer side ends with a full stop or the like and
    the shorter one does not, and if the last words of the longer one have no translation (where the filter
    ``dictionary`` is on, which learns what words have).

    Attributes:
        max_deviation: most deviations of a pair.
        exempt: pairs with at most so many characters on the longer side pass: a term may be short here and long
            there.
    """

    max_deviation: Annotated[float, Field(ge=0)] = 4.6
    exempt: Annotated[int, Field(ge=0)] = 15

    def scores(self, batch: Batch) -> Iterator[Score]:
        """The score of every pair, ``_COMPLETE`` where lengths alone show that it is within the limit."""
        evidence = batch.learned.evidence if batch.learned.has_evidence else None
        characters = count_characters(batch.pairs)
        deviations = batch.learned.lengths.deviations(np.maximum(characters, 1))
        most = np.abs(deviations) + _NO_MARK + _PER_EVIDENCE * _MAX_EVIDENCE
        is_suspect = (most > self.max_deviation) & (characters.max(axis=1, initial=0) > self.exempt)
        for pair, deviation, suspect in zip(batch.pairs, deviations.tolist(), is_suspect.tolist(), strict=True):
            yield _score(pair, deviation, evidence) if suspect else _COMPLETE

    def accept(self, score: Score) -> bool:
        return score.total <= self.max_deviation

    def describe(self, score: Score) -> str:
        signs = [f"{score.deviations:.1f} deviations"]
        if score.lacks_mark:
            signs.append("no final mark")
        if score.evidence:
            signs.append(f"the {SIDES[1 - score.shorter]}'s last words not translated")
        return f"{SIDES[score.shorter]} too short: {', '.join(signs)}"


def _score(pair: Pair, deviation: float, evidence: LexicalEvidence | None) -> Score:
    shorter = 0 if deviation > 0 else 1
    longer = 1 - shorter
    lacks_mark = bool(_FINAL_MARK(pair[longer]) and not _FINAL_MARK(pair[shorter]))
    tail = min(evidence.tail(pair, longer), _MAX_EVIDENCE) if evidence else 0.0
    return Score(abs(deviation), shorter, lacks_mark, tail)
