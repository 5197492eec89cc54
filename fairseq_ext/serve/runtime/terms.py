"""Terms with required translations: matching in the source, and constrained beam search.

The beam is divided as in dynamic beam allocation (Post and Vilar 2018, section 3): hypotheses that lack the same number
of constraint tokens form a bank, and the banks choose in turn, starting with the one that lacks fewest. Unlike in the
paper, a term may have several translations, and a constraint is checked in the text of a hypothesis, so it is met under
any subword segmentation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.search import Found, Hypothesis, Search
from fairseq_ext.text.text_files import read_lines

Decode = Callable[[Sequence[int]], str]
_SPARE = 3  # extra tokens allowed beyond the unconstrained translation and the terms
_WORD = re.compile(r"\w+|[^\w\s]")
_MOST_WORDS = 32  # of a term


@dataclass(frozen=True)
class Term:
    """A source term and its translations, one of which the target must contain."""

    source: str
    targets: tuple[str, ...]


class Glossary:
    """A collection of terms. Terms with the same source are merged, and any of their targets is accepted."""

    def __init__(self, terms: Iterable[Term] = ()) -> None:
        self._terms: dict[tuple[str, ...], Term] = {}
        for term in terms:
            words = tuple(_WORD.findall(term.source))
            known = self._terms.get(words, term)
            self._terms[words] = Term(known.source, tuple(dict.fromkeys((*known.targets, *term.targets))))
        self._by_lower: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        self._lengths: dict[str, list[int]] = {}  # by first word, the longest first
        for words in sorted(self._terms, key=len, reverse=True):
            lower = tuple(word.lower() for word in words)
            self._by_lower.setdefault(lower, []).append(words)
            lengths = self._lengths.setdefault(lower[0], [])
            lengths += [len(words)] if len(words) not in lengths else []

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """Read a file with one term per line: the source and one or more targets, separated by tabs."""
        terms = []
        for number, line in enumerate(read_lines(path), start=1):
            fields = [field.strip() for field in line.split("\t")]
            if any(fields):
                terms.append(make_term(fields[0], fields[1:], f"{path}, line {number}"))
        return cls(terms)

    def __iter__(self) -> Iterator[Term]:
        return iter(self._terms.values())

    def found_in(self, text: str) -> list[Term]:
        """Return the terms in a text, each once. If terms overlap, the first one wins, then the longest.

        Lowercase words of a term match any case; words with a capital match exactly.
        """
        words = _WORD.findall(text) if self._terms else []
        found: dict[str, Term] = {}
        start = 0
        while start < len(words):
            own = self._at(words, start)
            if own:
                found[self._terms[own].source] = self._terms[own]
            start += max(len(own), 1)
        return list(found.values())

    def _at(self, words: Sequence[str], start: int) -> tuple[str, ...]:
        """Return the words of the longest term at a place, or an empty tuple."""
        for length in self._lengths.get(words[start].lower(), []):
            here = words[start : start + length]
            for own in self._by_lower.get(tuple(word.lower() for word in here), []):
                if all(one.islower() or one == other for one, other in zip(own, here, strict=True)):
                    return own
        return ()


def make_term(source: str, targets: Iterable[str], where: str) -> Term:
    """Create a term from user input.

    Args:
        where: location of the term, for error messages.

    Raises:
        InputError: if the source has no word or too many, or there is no target.
    """
    targets = tuple(filter(str.strip, targets))
    if len(_WORD.findall(source)) > _MOST_WORDS:
        raise InputError(f"{where}: is longer than {_MOST_WORDS} words; give shorter terms")
    if not _WORD.search(source) or not targets:
        raise InputError(f"{where}: is not a term; give a source and at least one target")
    return Term(source, targets)


@dataclass(frozen=True)
class Constraint:
    """A constraint on a translation: it must contain one of several forms, at least once or exactly ``count`` times."""

    forms: list[list[int]]  # tokens of each form
    first_forms: list[list[int]]  # the same with an initial capital, for the beginning of the translation
    pattern: re.Pattern[str]  # matches the forms in a text
    count: int | None = None

    @classmethod
    def of(cls, targets: Sequence[str], encode: Callable[[str], list[int]], *, has_spaces: bool) -> Constraint:
        """Return the constraint that a translation contains one of the targets.

        Args:
            targets: normalised texts.
            encode: function that returns the tokens of a text; an empty list if the model cannot produce it.
            has_spaces: whether the language separates words by blanks, so that only whole words match.
        """
        capitals = [target[0].upper() + target[1:] for target in targets]
        forms, first_forms = ([tokens for each in texts if (tokens := encode(each))] for texts in (targets, capitals))
        anywhere, begins = ("|".join(map(re.escape, texts)) for texts in (targets, capitals))
        before, after = (r"(?<!\w)", r"(?!\w)") if has_spaces else ("", "")
        return cls(forms, first_forms, re.compile(rf"{before}({anywhere}){after}|^\W*({begins}){after}"))

    @classmethod
    def exactly(cls, text: str, count: int, tokens: list[int]) -> Constraint:
        """Return the constraint that a translation contains a text exactly ``count`` times."""
        return cls([tokens], [], re.compile(re.escape(text) + (r"(?!\w)" if text[-1:].isalnum() else "")), count)

    @property
    def longest(self) -> int:
        """Number of tokens of the longest form."""
        return max(map(len, self.forms), default=0)

    def found_in(self, text: str) -> str | None:
        """Return the form that a translation contains, or None."""
        found = self.pattern.search(text)
        return found[found.lastindex or 0] if found and self._is_met(text) else None

    def missing(self, tokens: list[int], text: str) -> int:
        """Return how many tokens a hypothesis lacks to meet the constraint."""
        if self._is_met(text):
            return 0
        return min([len(form) - size for form, size in self._begun(tokens)], default=0)

    def _is_met(self, text: str) -> bool:
        return bool(self.pattern.search(text)) if self.count is None else len(self.pattern.findall(text)) == self.count

    def next_tokens(self, tokens: list[int]) -> set[int]:
        """Return the tokens that bring a hypothesis closer to meeting the constraint."""
        return {form[size] for form, size in self._begun(tokens) if size < len(form)}

    def _begun(self, tokens: list[int]) -> list[tuple[list[int], int]]:
        """Return the forms that may continue a hypothesis, each with the number of tokens already generated."""
        first = [(form, len(tokens)) for form in self.first_forms if tokens == form[: len(tokens)]]
        return first + [(form, _overlap(tokens, form)) for form in self.forms]


def _overlap(tokens: list[int], form: list[int]) -> int:
    """Return the length of the longest prefix of a form that ends the hypothesis."""
    if not tokens or tokens[-1] not in form:
        return 0
    sizes = range(min(len(tokens), len(form)), 0, -1)
    return next((size for size in sizes if tokens[-size:] == form[:size]), 0)


class TermSearch(Search):
    """Search that prefers translations that meet constraints; see :class:`Search`.

    Args:
        constraints: constraints of each sentence.
        lengths: length of each sentence's translation without constraints, in tokens. It limits the length with
            constraints: a long translation can have the better mean score, since forced tokens weigh less in it.
        decode: function that returns the text of tokens.
        banned: tokens that no translation may contain.
    """

    def __init__(
        self,
        *given: Any,
        constraints: Sequence[Sequence[Constraint]],
        lengths: Sequence[int],
        decode: Decode,
        banned: np.ndarray | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*given, **options)
        self._constraints, self._lengths, self._decode, self._banned = constraints, lengths, decode, banned
        self._known: dict[tuple[int, ...], list[int]] = {}  # what hypotheses lack, by sentence and tokens
        longest = [
            length + _SPARE + sum(each.longest for each in own)
            for length, own in zip(lengths, constraints, strict=True)
        ]
        self.limits = np.minimum(self.limits, longest)

    def run(self) -> list[Found]:
        """Search, and return the hypotheses of each sentence; those that lack the fewest tokens come first."""
        found = super().run()
        for sentence, own in enumerate(found):
            own.hypotheses.sort(key=partial(self._rank, sentence))
        return found

    def _rank(self, sentence: int, hypothesis: Hypothesis) -> tuple[int, float]:
        own, length = len(hypothesis.tokens), self._lengths[sentence]
        lacks = sum(self._missing(sentence, hypothesis.tokens[:-1].tolist()))
        return lacks, -hypothesis.score * (own / min(own, length)) ** self.options.lenpen

    def _wanted(self) -> np.ndarray:
        rows, width = self.scores.shape
        wanted = [self._next_tokens(row, tokens) for row, tokens in self._hypotheses()]
        self._num_wanted = max(map(len, wanted))
        padded = np.full((rows * width, self._num_wanted), self.vocabulary.pad, np.int64)
        for own, next_tokens in zip(padded, wanted, strict=True):
            own[: len(next_tokens)] = next_tokens
        return padded.reshape(rows, width, self._num_wanted)

    def _order(self, totals: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Let banks choose in turn among the best overall, the best of each hypothesis, and constraint tokens."""
        lacks = np.array([self._lacks(row, own) for row, own in self._hypotheses()]).reshape(self.scores.shape)
        may_not_end = (lacks > 0) & (self.step < self.limits)[:, None]
        totals[may_not_end[:, :, None] & (tokens == self.vocabulary.last)] = -np.inf
        if self._banned is not None:
            totals[np.isin(tokens, self._banned)] = -np.inf
        is_wanted = np.arange(totals.shape[2]) >= totals.shape[2] - self._num_wanted
        is_looked_at = is_wanted | (totals == totals.max(2, keepdims=True))
        orders = super()._order(totals, tokens)
        for row in np.flatnonzero(~self.is_done).tolist():
            places = [*orders[row].tolist(), *np.flatnonzero(is_looked_at[row]).tolist()]
            orders[row] = self._shared_out(row, totals[row].ravel(), tokens[row].ravel(), places)
        return orders

    def _shared_out(self, row: int, totals: np.ndarray, tokens: np.ndarray, places: Sequence[int]) -> np.ndarray:
        """Return the indices of continuations, in the order in which banks choose them."""
        size, last = len(totals) // self.scores.shape[1], self.vocabulary.last
        hypotheses, next_tokens = self.tokens[row, :, 1:].tolist(), tokens.tolist()
        scores = {place: score for place in places if (score := float(totals[place])) > -math.inf}
        banks: dict[int, list[int]] = {}
        for place in sorted(scores, key=scores.__getitem__, reverse=True):
            hypothesis, token = hypotheses[place // size], next_tokens[place]
            lacks = self._lacks(row, hypothesis if token == last else [*hypothesis, token])
            banks.setdefault(lacks, []).append(place)
        # Half of the beam is for hypotheses that lack nothing; with less, they would never end.
        complete = banks.get(0, [])[: self.options.beam // 2]
        in_turn = chain.from_iterable(zip_longest(*(banks[lacks] for lacks in sorted(banks))))
        chosen = [place for place in (*complete, *in_turn) if place is not None]
        return np.array([*dict.fromkeys((*chosen, *places))][: 2 * self.options.beam])

    def _hypotheses(self) -> Iterator[tuple[int, list[int]]]:
        """Yield the row and tokens of each hypothesis."""
        return ((row, tokens) for row, own in enumerate(self.tokens[:, :, 1:].tolist()) for tokens in own)

    def _lacks(self, row: int, tokens: list[int]) -> int:
        """Return how many constraint tokens a hypothesis lacks."""
        return sum(self._missing(int(self.sentences[row]), tokens))

    def _missing(self, sentence: int, tokens: list[int]) -> list[int]:
        """Return how many tokens of each constraint a hypothesis lacks."""
        key = (sentence, *tokens)
        if key not in self._known:
            text = self._decode(tokens)
            self._known[key] = [each.missing(tokens, text) for each in self._constraints[sentence]]
        return self._known[key]

    def _next_tokens(self, row: int, tokens: list[int]) -> list[int]:
        if self.is_done[row]:
            return []
        sentence = int(self.sentences[row])
        each = zip(self._constraints[sentence], self._missing(sentence, tokens), strict=True)
        return sorted({token for constraint, size in each if size for token in constraint.next_tokens(tokens)})
