"""The filter that finds a part missing on one side: a half, the last sentence, or what was appended to the other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.batch import Batch, Reasons
from fairseq_ext.filtering.dictionary import SUPPORT_FILE
from fairseq_ext.filtering.limits import check_limit
from fairseq_ext.filtering.usual_lengths import count_characters, load_lengths
from fairseq_ext.filtering.word_support import WordSupport, load_support
from fairseq_ext.inputs.errors import InputError

LENGTHS_FILE = "lengths.json"
_SIDES = ("source", "target")
_FINAL_MARK = re.compile(r"[.!?…。！？।؟۔][\s\"'”’»«)\]]*$").search
# What else speaks for a missing part, in deviations: that the shorter side lacks the mark that ends the longer one, and
# that the last words of the longer one have no translation; these by a third of their evidence, as far as it goes.
_NO_MARK = 1.5
_PER_EVIDENCE = 1 / 3
_MAX_EVIDENCE = 5.0


@dataclass(frozen=True)
class Completeness:
    """Drops pairs of which one side is shorter than it should be, by what such pairs of the corpora have.

    Counted are deviations of the logarithm of the ratio of characters from its median among pairs of that length
    (:mod:`fairseq_ext.filtering.usual_lengths`); more of them, if the longer side ends with a full stop or the like and
    the shorter one does not, and if the last words of the longer one have no translation (where the filter
    ``dictionary`` is on, which learns what words have).

    Attributes:
        max_deviation: most deviations of a pair.
        exempt: pairs with at most so many characters on the longer side pass: a term may be short here and long
            there.
        learned: folder that :mod:`fairseq_ext.filtering.learn` has written.
    """

    max_deviation: float = 4.6
    exempt: int = 15
    learned: str | None = field(default=None, metadata={"in_file": False})

    def __post_init__(self) -> None:
        check_limit("max_deviation", self.max_deviation, 0)
        check_limit("exempt", self.exempt, 0)

    def reasons(self, batch: Batch) -> Reasons:
        """See :data:`~fairseq_ext.filtering.batch.Reasons`."""
        reasons: Reasons = [None] * len(batch)
        if not batch.pairs:
            return reasons  # it may be still to be learned
        if self.learned is None:
            raise InputError("completeness: nothing was learned from the corpora")
        folder = Path(self.learned)
        support = load_support(str(folder / SUPPORT_FILE)) if (folder / SUPPORT_FILE).is_file() else None
        characters = count_characters(batch.pairs)
        deviations = load_lengths(str(folder / LENGTHS_FILE)).deviations(np.maximum(characters, 1))
        # Few pairs need more than a look at their lengths.
        most = np.abs(deviations) + _NO_MARK + _PER_EVIDENCE * _MAX_EVIDENCE
        for row in np.flatnonzero((most > self.max_deviation) & (characters.max(axis=1) > self.exempt)).tolist():
            reasons[row] = self._judge(batch.pairs[row], float(deviations[row]), support)
        return reasons

    def _judge(self, pair: Pair, deviation: float, support: WordSupport | None) -> str | None:
        shorter = 0 if deviation > 0 else 1
        total, signs = abs(deviation), [f"{abs(deviation):.1f} deviations"]
        if _FINAL_MARK(pair[1 - shorter]) and not _FINAL_MARK(pair[shorter]):
            total += _NO_MARK
            signs.append("no final mark")
        if support and (evidence := min(support.tail(pair, 1 - shorter), _MAX_EVIDENCE)):
            total += _PER_EVIDENCE * evidence
            signs.append(f"the {_SIDES[1 - shorter]}'s last words not translated")
        return f"{_SIDES[shorter]} too short: {', '.join(signs)}" if total > self.max_deviation else None
