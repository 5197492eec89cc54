"""The filter that asks word translations: does the other side hold what this side says?

The list of translations is given, or learned from the corpus itself (:mod:`fairseq_ext.cleaning.learn`). A word whose
translations are nearly always there speaks against a pair by their absence, and a rare translation that is there speaks
for it. The evidence is the logarithm of a ratio of likelihoods: of what is seen in pairs taken at random, to the same
in translations. Rates are counted in the corpus itself.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from fairseq_ext.cleaning.filters import Batch, Filter
from fairseq_ext.corpora.languages import has_spaces
from fairseq_ext.corpora.text_files import Pair, read_lines
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import Number

EVIDENCE_FILE = "evidence.json"
# Words are compared by their first six letters, which brings most inflected forms together.
_STEM = re.compile(r"(\w{1,6})\w*")
# A word's rate starts at that of words in general, as if it had been met so many times: rare words always have their
# translation in the pairs that these were learned from.
_USUAL_RATE = 0.45
_USUAL_COUNT = 6
# One word alone decides nothing.
_MAX_RATE = 0.95
_LEAST_KNOWN = 4

Sides = tuple[set[str], set[str]]


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
    """Most evidence against a pair, in natural units of information:
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
        assert batch.learned is not None
        evidence = read_evidence(batch.learned / EVIDENCE_FILE)
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


def read_evidence(path: Path) -> LexicalEvidence:
    """Read what :func:`learn_evidence` wrote."""
    document = json.loads(path.read_text(encoding="utf-8"))
    entries = document["source"], document["target"]
    missing, found = (tuple({word: each[kind] for word, each in side.items()} for side in entries) for kind in (0, 1))
    translations = {word: set(others) for word, others in document["translations"].items()}
    return LexicalEvidence(translations, missing, found, tuple(document["mean_words"]))  # type: ignore[arg-type]


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
