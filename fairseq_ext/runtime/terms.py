"""Terms, whose translation is given: found in the source, and constraints of the beam search.

The beam is shared out as in dynamic beam allocation (Post and Vilar 2018, section 3): hypotheses that lack equally many
tokens of the given translations form a bank, and the banks choose in turn, those that lack least first. Unlike there, a
term may have several translations, and whether one is in a hypothesis is seen in its text, so that it counts however it
is cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.search import Found, Hypothesis, Search

Decode = Callable[[Sequence[int]], str]
_SPARE = 3  # tokens that a translation with terms may be longer than one without and the terms
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Term:
    """Words of the source, and their translations, one of which has to stand in the target."""

    source: str
    targets: tuple[str, ...]


class Glossary:
    """Terms, by their first words; of several with the same source, all targets count."""

    def __init__(self, terms: Iterable[Term] = ()) -> None:
        self._terms: dict[tuple[str, ...], Term] = {}
        for term in terms:
            words = tuple(_WORD.findall(term.source))
            known = self._terms.get(words, term)
            self._terms[words] = Term(known.source, tuple(dict.fromkeys((*known.targets, *term.targets))))
        self._by_first: dict[str, list[tuple[str, ...]]] = {}
        for words in sorted(self._terms, key=len, reverse=True):
            self._by_first.setdefault(words[0].lower(), []).append(words)

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """Read a file: a line for each term, its source and one or more targets with tabs between."""
        terms = []
        for number, line in enumerate(read_lines(path), start=1):
            fields = [field.strip() for field in line.split("\t")]
            if any(fields):
                terms.append(make_term(fields[0], fields[1:], f"{path}, line {number}"))
        return cls(terms)

    def __iter__(self) -> Iterator[Term]:
        return iter(self._terms.values())

    def found_in(self, text: str) -> list[Term]:
        """The terms of a text, each once; of those that overlap, the first, and of these the longest.

        A word in small letters is found in any; one with a capital, as it is.
        """
        words = _WORD.findall(text)
        found: dict[str, Term] = {}
        start = 0
        while start < len(words):
            for own in self._by_first.get(words[start].lower(), []):
                if _are_alike(own, words[start : start + len(own)]):
                    found[self._terms[own].source] = self._terms[own]
                    start += len(own) - 1
                    break
            start += 1
        return list(found.values())


def make_term(source: str, targets: Iterable[str], where: str) -> Term:
    """A term that a user gave."""
    targets = tuple(filter(str.strip, targets))
    if not _WORD.search(source) or not targets:
        raise InputError(f"{where}: is no term; give its source and at least one target")
    return Term(source, targets)


def _are_alike(own: Sequence[str], words: Sequence[str]) -> bool:
    return len(own) == len(words) and all(
        one == other or (one.islower() and one == other.lower()) for one, other in zip(own, words, strict=True)
    )


@dataclass(frozen=True)
class Constraint:
    """What has to stand in a translation: one of several forms."""

    forms: list[list[int]]  # tokens of each
    first_forms: list[list[int]]  # likewise, with a capital, where one begins the translation
    pattern: re.Pattern[str]  # of text that has one

    @classmethod
    def of(cls, targets: Sequence[str], encode: Callable[[str], list[int]], *, has_spaces: bool) -> Constraint:
        """The constraint that one of some targets, as a model spells them, stands in a translation.

        Args:
            encode: gives the tokens of a text; none if a model cannot write it.
            has_spaces: whether blanks separate words, so that a target has to be whole ones.
        """
        capitals = [target[0].upper() + target[1:] for target in targets]
        forms, first_forms = ([tokens for each in texts if (tokens := encode(each))] for texts in (targets, capitals))
        anywhere, begins = ("|".join(map(re.escape, texts)) for texts in (targets, capitals))
        before, after = (r"(?<!\w)", r"(?!\w)") if has_spaces else ("", "")
        return cls(forms, first_forms, re.compile(rf"{before}({anywhere}){after}|^\W*({begins}){after}"))

    @classmethod
    def exactly(cls, text: str, count: int, tokens: list[int]) -> Constraint:
        """The constraint that a text stands in a translation so many times and no more often."""
        own = re.escape(text) + (r"(?!\w)" if text[-1:].isalnum() else "")
        other = f"(?:(?!{own}).)*"
        return cls([tokens], [], re.compile(rf"\A{other}(?:{own}{other}){{{count}}}\Z", re.DOTALL))

    @property
    def longest(self) -> int:
        """Tokens of the longest form."""
        return max(map(len, self.forms), default=0)

    def found_in(self, text: str) -> str | None:
        """The form that a translation has, or None."""
        found = self.pattern.search(text)
        return found and found[found.lastindex or 0]

    def missing(self, tokens: list[int], text: str) -> int:
        """How many tokens a hypothesis lacks."""
        if self.pattern.search(text):
            return 0
        return min((len(form) - size for form, size in self._begun(tokens)), default=0)

    def next_tokens(self, tokens: list[int]) -> set[int]:
        """The tokens that bring a hypothesis that lacks some nearer to it."""
        return {form[size] for form, size in self._begun(tokens) if size < len(form)}

    def _begun(self, tokens: list[int]) -> Iterator[tuple[list[int], int]]:
        """The forms that may come next, and how many of its first tokens each has already."""
        yield from ((form, _overlap(tokens, form)) for form in self.forms)
        yield from ((form, len(tokens)) for form in self.first_forms if tokens == form[: len(tokens)])


def _overlap(tokens: list[int], form: list[int]) -> int:
    """How many of a form's first tokens are a hypothesis's last ones."""
    sizes = range(min(len(tokens), len(form)), 0, -1)
    return next((size for size in sizes if form[size - 1] == tokens[-1] and tokens[-size:] == form[:size]), 0)


class TermSearch(Search):
    """The search for translations in which constraints hold, where it finds such; see :class:`Search`.

    Args:
        lengths: of a translation without constraints. One with them is not much longer, though a long one can have the
            better mean: what is forced weighs less in it.
    """

    def __init__(
        self,
        *given: Any,
        constraints: Sequence[Sequence[Constraint]],
        lengths: Sequence[int],
        decode: Decode,
        **options: Any,
    ) -> None:
        super().__init__(*given, **options)
        self._constraints, self._lengths, self._decode = constraints, lengths, decode
        longest = [
            length + _SPARE + sum(each.longest for each in own)
            for length, own in zip(lengths, constraints, strict=True)
        ]
        self.limits = np.minimum(self.limits, longest)

    def run(self) -> list[Found]:
        """Search; translations that lack least come first."""
        found = super().run()
        for own, constraints, length in zip(found, self._constraints, self._lengths, strict=True):
            own.hypotheses.sort(key=lambda each: self._rank(each, constraints, length))  # noqa: B023
        return found

    def _rank(self, hypothesis: Hypothesis, constraints: Sequence[Constraint], length: int) -> tuple[int, float]:
        own, power = len(hypothesis.tokens), self.options.lenpen
        lacks = _lacks(constraints, hypothesis.tokens[:-1].tolist(), self._decode)
        return lacks, -hypothesis.score * (own / min(own, length)) ** power

    def _wanted(self) -> np.ndarray:
        rows, width = self.scores.shape
        wanted = [self._next_tokens(row, tokens) for row, tokens in self._hypotheses()]
        self._num_wanted = max(map(len, wanted))
        padded = np.full((rows * width, self._num_wanted), self.vocabulary.pad, np.int64)
        for own, next_tokens in zip(padded, wanted, strict=True):
            own[: len(next_tokens)] = next_tokens
        return padded.reshape(rows, width, self._num_wanted)

    def _order(self, totals: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Banks choose in turn among the best of all, the best of each hypothesis, and what constraints want."""
        lacks = np.array([self._lacks(row, own) for row, own in self._hypotheses()]).reshape(self.scores.shape)
        may_not_end = (lacks > 0) & (self.step < self.limits)[:, None]
        totals[may_not_end[:, :, None] & (tokens == self.vocabulary.last)] = -np.inf
        is_wanted = np.arange(totals.shape[2]) >= totals.shape[2] - self._num_wanted
        is_looked_at = is_wanted | (totals == totals.max(2, keepdims=True))
        orders = super()._order(totals, tokens)
        return np.stack(
            [
                self._shared_out(row, totals[row].ravel(), tokens[row].ravel(), [*order, *np.flatnonzero(is_seen)])
                for row, (order, is_seen) in enumerate(zip(orders, is_looked_at, strict=True))
            ]
        )

    def _shared_out(self, row: int, totals: np.ndarray, tokens: np.ndarray, places: Sequence[int]) -> np.ndarray:
        """Places of ways to go on, in the order in which banks choose them."""
        size = len(totals) // self.scores.shape[1]
        banks: dict[int, list[int]] = {}
        for place in sorted(dict.fromkeys(places), key=lambda place: -totals[place]):
            hypothesis = self.tokens[row, place // size, 1:].tolist()
            is_end = tokens[place] == self.vocabulary.last or not np.isfinite(totals[place])
            lacks = self._lacks(row, hypothesis if is_end else [*hypothesis, int(tokens[place])])
            banks.setdefault(lacks, []).append(place)
        # Half of the beam is for what lacks nothing: with fewer, the end of a translation is never among the best.
        complete = banks.get(0, [])[: self.options.beam // 2]
        in_turn = [place for turn in zip_longest(*(banks[lacks] for lacks in sorted(banks))) for place in turn]
        chosen = [place for place in (*complete, *in_turn) if place is not None and np.isfinite(totals[place])]
        return np.array([*dict.fromkeys((*chosen, *places))][: 2 * self.options.beam])

    def _hypotheses(self) -> Iterator[tuple[int, list[int]]]:
        """Row and tokens of each."""
        return ((row, tokens) for row, own in enumerate(self.tokens[:, :, 1:].tolist()) for tokens in own)

    def _lacks(self, row: int, tokens: list[int]) -> int:
        """How many tokens a hypothesis lacks."""
        return _lacks(self._constraints[self.sentences[row]], tokens, self._decode)

    def _next_tokens(self, row: int, tokens: list[int]) -> list[int]:
        text = self._decode(tokens)
        lacking = [each for each in self._constraints[self.sentences[row]] if each.missing(tokens, text)]
        return sorted({token for each in lacking for token in each.next_tokens(tokens)})


def _lacks(constraints: Sequence[Constraint], tokens: list[int], decode: Decode) -> int:
    text = decode(tokens)
    return sum(each.missing(tokens, text) for each in constraints)
