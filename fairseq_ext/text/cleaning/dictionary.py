"""The filter for word translations: checks whether words of one side have translations on the other.

The word list is given, or learned from the corpus itself (:mod:`fairseq_ext.text.cleaning.learn`). Missing
translations are evidence against a pair, strongest for words that are nearly always translated. Translations found
are evidence for it, strongest if they are rare. The evidence is a log likelihood ratio: of the observation in random
pairs to the observation in translations. Rates are estimated from the corpus itself.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.sections import Number
from fairseq_ext.text.cleaning.filters import Batch, Filter
from fairseq_ext.text.languages import has_spaces
from fairseq_ext.text.text_files import Pair, read_lines

EVIDENCE_FILE = "evidence.json"
# Words are compared by their first six characters, so that most inflected forms match.
_STEM = re.compile(r"(\w{1,6})\w*")
# Prior of a word's translation rate, weighted like this number of occurrences: in the pairs that the list was learned
# from, rare words always have a translation.
_USUAL_RATE = 0.45
_USUAL_COUNT = 6
# Limits the evidence of a single word.
_MAX_RATE = 0.95
_LEAST_KNOWN = 4

Sides = tuple[set[str], set[str]]


class Dictionary(Filter):
    """Drops pairs that are not translations according to their words.

    The filter uses the distinct words of both sides that are in the list. Words are case-folded runs of letters and
    digits, truncated to six characters. It does not support languages without spaces between words.
    """

    word_list: str | None = None
    """File with lines ``source<TAB>target``; a third column with probabilities is ignored. By default, a list is
    learned from the corpora."""
    max_evidence: Annotated[Number, Field(ge=0)] | None = 6.5
    """Maximum evidence against a pair, in nats: 6.5 is a likelihood ratio of 665. Words are weighted by how reliably
    they are translated in the corpora, and short pairs without any translation may pass. None: no limit."""
    min_share: Annotated[Number, Field(gt=0, le=1)] | None = None
    """Minimum share of known words with a translation, all words weighted equally; pairs with fewer than four known
    words (both sides together) pass. None: no limit."""
    sentences: Annotated[int, Field(ge=1)] = 200_000
    """Maximum number of pairs to learn from."""

    def check(self, langs: tuple[str, str]) -> None:
        for lang in langs:
            if not has_spaces(lang):
                raise InputError(f"dictionary: {lang} is written without spaces between words; remove this filter")
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
            return f"evidence of {against:.1f} against the pair in its words"
        return None


def read_word_list(path: Path) -> dict[str, set[str]]:
    """Read a word list, and return the translations of each source word, all truncated as in :func:`stems`.

    Entries of several words are skipped, since words are looked up one by one.
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
        raise InputError(f"{path}: has no line with one word and its one-word translation; add some")
    return translations


def stems(text: str) -> list[str]:
    """Return the words of a text: case-folded runs of letters and digits, truncated to six characters."""
    return _STEM.findall(text.casefold())


def stems_of(pair: Pair) -> Sides:
    """Return the distinct words of both sides."""
    return set(stems(pair.source)), set(stems(pair.target))


def supported_words(sides: Sides, translations: Mapping[str, set[str]]) -> Sides:
    """Return the source words with a translation on the target side, and these translations."""
    supported: Sides = (set(), set())
    for word in translations.keys() & sides[0]:
        if both := translations[word] & sides[1]:
            supported[0].add(word)
            supported[1].update(both)
    return supported


@dataclass(frozen=True)
class LexicalEvidence:
    """Lexical evidence against pairs, by word.

    Attributes:
        translations: translations of each source word.
        missing: for each side, the evidence of words without a translation in the pair; at least 0.
        found: for each side, the evidence of words with a translation in the pair; at most 0.
        mean_words: for each side, the mean number of distinct words.
    """

    translations: Mapping[str, set[str]]
    missing: tuple[Mapping[str, float], Mapping[str, float]]
    found: tuple[Mapping[str, float], Mapping[str, float]]
    mean_words: tuple[float, float]

    def of(self, sides: Sides) -> float:
        """Return the evidence against a pair in nats; negative values are evidence for it."""
        supported = supported_words(sides, self.translations)
        evidence = []
        for side in (0, 1):
            missing, found = self.missing[side], self.found[side]
            longer = self._log_length(sides, 1 - side)
            evidence += [missing[word] for word in (missing.keys() & sides[side]) - supported[side]]
            evidence += [min(0.0, found[word] + longer) for word in supported[side]]
        # fsum, since the iteration order of sets differs between processes.
        return math.fsum(evidence)

    def tail(self, pair: Pair, side: int) -> float:
        """Return the evidence that the end of a side is missing on the other: the maximum over suffixes, at least 0."""
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
        """Return the log of how much likelier chance translations are, as a side is longer than average."""
        return math.log(max(1.0, len(sides[side]) / self.mean_words[side]))


def read_evidence(path: Path) -> LexicalEvidence:
    """Read the output of :func:`learn_evidence`."""
    document = json.loads(path.read_text(encoding="utf-8"))
    entries = document["source"], document["target"]
    missing, found = (tuple({word: each[kind] for word, each in side.items()} for side in entries) for kind in (0, 1))
    translations = {word: set(others) for word, others in document["translations"].items()}
    return LexicalEvidence(translations, missing, found, tuple(document["mean_words"]))  # type: ignore[arg-type]


def learn_evidence(pairs: Iterable[Pair], translations: Mapping[str, set[str]], output: Path) -> None:
    """Estimate lexical evidence from how often words have a translation on the other side, and write it as JSON.

    The order of pairs and repetitions do not matter.
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
    """Return, for each word, the evidence against a pair without and with a translation of it."""
    entries = {}
    for word, others in translations.items():
        rate = min(_MAX_RATE, (supported[word] + _USUAL_COUNT * _USUAL_RATE) / (met[word] + _USUAL_COUNT))
        chance = min(rate, (1 + sum(met_others[other] for other in others)) / (num_pairs + 1))
        entries[word] = (round(math.log((1 - chance) / (1 - rate)), 3), round(math.log(chance / rate), 3))
    return entries
