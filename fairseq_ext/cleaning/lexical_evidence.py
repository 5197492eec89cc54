"""What the words of a pair say for and against it: how often each has a translation on the other side.

A word whose translations are nearly always there speaks against a pair by their absence, and a rare translation that
is there speaks for it. The evidence is the logarithm of a ratio of likelihoods: of what is seen in pairs taken at
random, to the same in translations. Rates are counted in the corpus itself.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fairseq_ext.corpora.text_files import Pair

EVIDENCE_FILE = "evidence.json"
# Words are compared by their first six letters, which brings most inflected forms together.
_STEM = re.compile(r"(\w{1,6})\w*")
# A word's rate starts at that of words in general, as if it had been met so many times: rare words always have their
# translation in the pairs that these were learned from.
_USUAL_RATE = 0.45
_USUAL_COUNT = 6
# One word alone decides nothing.
_MAX_RATE = 0.95

Sides = tuple[set[str], set[str]]


def stems(text: str) -> list[str]:
    """The words of a text: runs of letters and digits, case folded, of which the first six count."""
    return _STEM.findall(text.casefold())


def stems_of(pair: Pair) -> Sides:
    """The different words of both sides."""
    return set(stems(pair.source)), set(stems(pair.target))


def supported_words(sides: Sides, translations: Mapping[str, set[str]]) -> Sides:
    """The source words that have a translation among the target's words, and these."""
    supported: Sides = (set(), set())
    for word in translations.keys() & sides[0]:
        if both := translations[word] & sides[1]:
            supported[0].add(word)
            supported[1].update(both)
    return supported


@dataclass(frozen=True)
class LexicalEvidence:
    """Evidence by word.

    Attributes:
        translations: of each source word, its translations.
        missing: of each side's words, the evidence against a pair in which its translations are missing, 0 or more.
        found: the same where one is there: 0 or less.
        mean_words: different words of a side, on average.
    """

    translations: Mapping[str, set[str]]
    missing: tuple[Mapping[str, float], Mapping[str, float]]
    found: tuple[Mapping[str, float], Mapping[str, float]]
    mean_words: tuple[float, float]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what :func:`learn_evidence` wrote."""
        document = json.loads(path.read_text(encoding="utf-8"))
        entries = document["source"], document["target"]
        missing, found = (
            tuple({word: each[kind] for word, each in side.items()} for side in entries) for kind in (0, 1)
        )
        translations = {word: set(others) for word, others in document["translations"].items()}
        return cls(translations, missing, found, tuple(document["mean_words"]))  # type: ignore[arg-type]

    def of(self, sides: Sides) -> float:
        """Evidence against a pair, in natural units of information; negative if it speaks for the pair."""
        supported = supported_words(sides, self.translations)
        evidence = []
        for side in (0, 1):
            missing, found = self.missing[side], self.found[side]
            longer = self._log_length(sides, 1 - side)
            evidence += [missing[word] for word in (missing.keys() & sides[side]) - supported[side]]
            evidence += [min(0.0, found[word] + longer) for word in supported[side]]
        # Sets have another order in every process; this sum does not depend on it.
        return math.fsum(evidence)

    def tail(self, pair: Pair, side: int) -> float:
        """Evidence that the end of a side is not on the other: of as many last words as give the most; at least 0."""
        sides = stems_of(pair)
        supported = supported_words(sides, self.translations)[side]
        missing, found = self.missing[side], self.found[side]
        longer = self._log_length(sides, 1 - side)
        total = 0.0
        for word in stems(pair[side]):
            if word in missing:
                total += min(0.0, found[word] + longer) if word in supported else missing[word]
                total = max(total, 0.0)
        return total

    def _log_length(self, sides: Sides, side: int) -> float:
        """How much likelier a translation is there by chance, as the side is longer than most."""
        return math.log(max(1.0, len(sides[side]) / self.mean_words[side]))


def learn_evidence(pairs: Iterable[Pair], translations: Mapping[str, set[str]], output: Path) -> None:
    """Count how often words have one of their translations on the other side, and write what follows from it as JSON.

    Neither the pairs' order nor repetitions matter.
    """
    sources_of: dict[str, set[str]] = {}
    for source, targets in translations.items():
        for target in targets:
            sources_of.setdefault(target, set()).add(source)
    known = (translations, sources_of)
    met: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    supported: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    num_words, different = [0, 0], set(pairs)
    for pair in different:
        sides = stems_of(pair)
        both = supported_words(sides, translations)
        for side in (0, 1):
            num_words[side] += len(sides[side])
            met[side].update(known[side].keys() & sides[side])
            supported[side].update(both[side])
    num_pairs = len(different)
    entries = [_entries(known[side], met[side], supported[side], met[1 - side], num_pairs) for side in (0, 1)]
    document = {
        "mean_words": [max(1.0, count / max(num_pairs, 1)) for count in num_words],
        "source": entries[0],
        "target": entries[1],
        "translations": {word: sorted(others) for word, others in translations.items()},
    }
    output.write_text(json.dumps(document, ensure_ascii=False, sort_keys=True, indent=0) + "\n", encoding="utf-8")


def _entries(
    translations: Mapping[str, set[str]],
    met: Counter[str],
    supported: Counter[str],
    met_others: Counter[str],
    num_pairs: int,
) -> dict[str, tuple[float, float]]:
    """Of each word, the evidence against a pair where no translation is there, and where one is."""
    entries = {}
    for word, others in translations.items():
        rate = min(_MAX_RATE, (supported[word] + _USUAL_COUNT * _USUAL_RATE) / (met[word] + _USUAL_COUNT))
        chance = min(rate, (1 + sum(met_others[other] for other in others)) / (num_pairs + 1))
        entries[word] = (round(math.log((1 - chance) / (1 - rate)), 3), round(math.log(chance / rate), 3))
    return entries
