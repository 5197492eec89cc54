"""What the words of a pair say for and against it: how often each has a translation on the other side.

A word whose translations are nearly always there speaks against a pair by their absence, and a rare translation that
is there speaks for it. The evidence is the logarithm of a ratio of likelihoods: of what is seen in pairs taken at
random, to the same in translations. Rates are counted in the corpus itself.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.word_list import load_word_list, stems, stems_in_order

# A word's rate starts at that of words in general, as if it had been met so many times: rare words always have their
# translation in the pairs that these were learned from.
_USUAL_RATE = 0.45
_USUAL_COUNT = 6
# One word alone decides nothing.
_MAX_RATE = 0.95


@dataclass(frozen=True)
class WordSupport:
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

    def evidence(self, pair: Pair) -> float:
        """Evidence against a pair, in natural units of information; negative if it speaks for the pair."""
        sides = stems(pair.source), stems(pair.target)
        supported = supported_words(sides[0], sides[1], self.translations)
        evidence = []
        for side in (0, 1):
            missing, found = self.missing[side], self.found[side]
            longer = self._log_length(sides[1 - side], side)
            evidence += [missing[word] for word in (missing.keys() & sides[side]) - supported[side]]
            evidence += [min(0.0, found[word] + longer) for word in supported[side]]
        # Sets have another order in every process; this sum does not depend on it.
        return math.fsum(evidence)

    def tail(self, pair: Pair, side: int) -> float:
        """Evidence that the end of a side is not on the other: of as many last words as give the most; at least 0."""
        sides = stems(pair.source), stems(pair.target)
        supported = supported_words(sides[0], sides[1], self.translations)[side]
        missing, found = self.missing[side], self.found[side]
        longer = self._log_length(sides[1 - side], side)
        total = 0.0
        for word in stems_in_order(pair[side]):
            if word in missing:
                total += min(0.0, found[word] + longer) if word in supported else missing[word]
                total = max(total, 0.0)
        return total

    def _log_length(self, others: Collection[str], side: int) -> float:
        """How much likelier a translation is there by chance, as the other side is longer than most."""
        return math.log(max(1.0, len(others) / self.mean_words[1 - side]))


def supported_words(
    sources: set[str], targets: set[str], translations: Mapping[str, set[str]]
) -> tuple[set[str], set[str]]:
    """The source words that have a translation among the targets, and these."""
    supported: tuple[set[str], set[str]] = set(), set()
    for word in translations.keys() & sources:
        if both := translations[word] & targets:
            supported[0].add(word)
            supported[1].update(both)
    return supported


def learn_support(pairs: Iterable[Pair], word_list: Path, output: Path) -> None:
    """Count how often the words of a list have a translation on the other side, and write what follows from it.

    Neither the pairs' order nor repetitions matter.

    Args:
        pairs: sentences and their translations.
        word_list: see :func:`~fairseq_ext.filtering.word_list.load_word_list`.
        output: file to write, JSON.
    """
    translations = load_word_list(str(word_list))
    sources_of: dict[str, set[str]] = {}
    for source, targets in translations.items():
        for target in targets:
            sources_of.setdefault(target, set()).add(source)
    known = translations.keys(), sources_of.keys()
    met: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    supported: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    num_words = [0, 0]
    different = set(pairs)
    num_pairs = len(different)
    for pair in different:
        sides = stems(pair.source), stems(pair.target)
        both = supported_words(sides[0], sides[1], translations)
        for side in (0, 1):
            num_words[side] += len(sides[side])
            met[side].update(known[side] & sides[side])
            supported[side].update(both[side])
    document = {
        "mean_words": [max(1.0, count / max(num_pairs, 1)) for count in num_words],
        "source": _entries(translations, met, supported, 0, num_pairs),
        "target": _entries(sources_of, met, supported, 1, num_pairs),
        "translations": {word: sorted(others) for word, others in translations.items()},
    }
    output.write_text(json.dumps(document, ensure_ascii=False, sort_keys=True, indent=0) + "\n", encoding="utf-8")


def _entries(
    translations: Mapping[str, set[str]],
    met: tuple[Counter[str], Counter[str]],
    supported: tuple[Counter[str], Counter[str]],
    side: int,
    num_pairs: int,
) -> dict[str, tuple[float, float]]:
    """Of each word of a side, the evidence against a pair where no translation is there, and where one is."""
    entries = {}
    for word, others in translations.items():
        rate = (supported[side][word] + _USUAL_COUNT * _USUAL_RATE) / (met[side][word] + _USUAL_COUNT)
        rate = min(rate, _MAX_RATE)
        chance = min(rate, (1 + sum(met[1 - side][other] for other in others)) / (num_pairs + 1))
        entries[word] = (round(math.log((1 - chance) / (1 - rate)), 3), round(math.log(chance / rate), 3))
    return entries


@lru_cache(maxsize=2)
def load_support(path: str) -> WordSupport:
    """Read what :func:`learn_support` wrote, once a process."""
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    sides = document["source"], document["target"]
    missing, found = (tuple({word: entry[kind] for word, entry in side.items()} for side in sides) for kind in (0, 1))
    translations = {word: set(others) for word, others in document["translations"].items()}
    source_words, target_words = document["mean_words"]
    return WordSupport(translations, missing, found, (source_words, target_words))  # type: ignore[arg-type]
