"""Batched search for translations, repeated where terms or placeholders are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import TypeVar

import numpy as np

from fairseq_ext.serve.runtime.mending import mended
from fairseq_ext.serve.runtime.model import Model, Route
from fairseq_ext.serve.runtime.next_tokens import Options
from fairseq_ext.serve.runtime.placing import Marked, Placing
from fairseq_ext.serve.runtime.requests import LENGTH, REPETITION
from fairseq_ext.serve.runtime.search import Found, GreedySearch, Hypothesis, Search
from fairseq_ext.serve.runtime.shortlist import Shortlist
from fairseq_ext.serve.runtime.tables import Output
from fairseq_ext.serve.runtime.terms import Constraint, TermSearch
from fairseq_ext.serve.runtime.vocabulary import Text
from fairseq_ext.text.placeholders import keeps, parts

# Source tokens of a batch, including padding, and the same times the beam size. With more, the states do not fit the
# caches, and the shortlist of a batch is long.
_BATCH_TOKENS, _BATCH_STATES = 1000, 4000
# Each domain of a batch adds its adapters to the work for every sentence of the batch.
_BATCH_DOMAINS = 8
_TERM_BEAM = 8  # minimum beam size of a search with constraints
# Characters of placeholders, which translations without any do not need.
_SYNTAX = "%{}$#@\\|<>[]"
# A translation repeats itself if so many tokens are the same few, so many times more than the source does.
_REPEATED, _TIMES, _LONGEST_REPEATED = 8, 4, 6
_MOST_LENGTH, _SPARE_LENGTH = 3, 20  # tokens of one side for each of the other, and in addition
_NO_REPEAT = 3  # n-grams of this size do not occur twice in a search after a repetition
_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Sentence:
    """A unit of translation."""

    marked: Marked
    tokens: np.ndarray  # source tokens
    prefix: list[int]  # tokens with which the translation begins
    domain: str | None  # domain of the adapter to use
    is_forced: bool  # whether this adapter replaces the gates
    terms: Mapping[str, Constraint]  # constraints of terms, by source term
    kept: Sequence[Constraint]  # constraints of placeholders
    dialect: str  # dialect of placeholders

    @property
    def constraints(self) -> list[Constraint]:
        return [*self.terms.values(), *self.kept]

    @property
    def needed(self) -> Iterator[int]:
        """Target tokens of the prefix, terms and placeholders."""
        yield from self.prefix
        for constraint in self.constraints:
            yield from chain(*constraint.forms, *constraint.first_forms)

    def is_kept(self, text: str) -> bool:
        """Return whether a translation without hidden placeholders has exactly those of the source.

        If the source has any, the rest of the translation must have words, but no parts of other placeholders.
        """
        if not keeps(self.marked.text, self.marked.spaced(text), self.dialect):
            return False
        if not self.kept:
            return True
        source, target = ("".join(parts(each, self.dialect)[::2]) for each in (self.marked.text, text))
        has_words = any(map(str.isalpha, target)) or not any(map(str.isalpha, source))
        return has_words and all(target.count(each) <= source.count(each) for each in _SYNTAX)

    def fault_of(self, tokens: np.ndarray) -> str | None:
        """Return ``REPETITION`` or ``LENGTH`` if a translation, including its end, has such a fault."""
        times = max(_times_repeated(self.tokens.tolist()), 1)
        if _times_repeated(tokens.tolist()) >= _TIMES * times:
            return REPETITION
        short, long = sorted((len(self.tokens), len(tokens)))
        return LENGTH if long > _MOST_LENGTH * short + _SPARE_LENGTH else None


class Searches:
    """Searches with one model. Several threads translate batches in parallel."""

    def __init__(
        self, model: Model, text: Text, domains: Sequence[str], threads: int, shortlist: Shortlist | None = None
    ) -> None:
        self._model, self._text, self._domains, self._shortlist = model, text, domains, shortlist
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def translate(
        self, sentences: Sequence[Sentence], options: Options, candidates: int, *, with_gates: bool
    ) -> list[tuple[Found, list[str], str | None]]:
        """Return the hypotheses of each sentence, the texts of the best ones, and the fault of the first search.

        A sentence whose placeholders are not kept is searched again with hidden placeholders, and one whose
        translation repeats itself or is too long, without repeated n-grams.
        """
        sentences = list(sentences)
        wide = replace(options, beam=max(options.beam, _TERM_BEAM))

        search_kind = GreedySearch if options.beam == 1 else Search

        def search(rows: list[int]) -> list[Found]:
            return self._search_of(search_kind, [sentences[row] for row in rows], options, with_gates).run()

        def search_again(rows: list[int], options: Options = wide, banned: np.ndarray | None = None) -> list[Found]:
            kind = partial(
                TermSearch,
                constraints=[sentences[row].constraints for row in rows],
                lengths=[len(found[row].hypotheses[0].tokens) for row in rows],
                decode=self._text.decode,
                banned=banned,
            )
            return self._search_of(kind, [sentences[row] for row in rows], options, with_gates).run()

        found = self._in_batches(range(len(sentences)), sentences, search, options.beam)
        faults = [each.fault_of(found[row].hypotheses[0].tokens) for row, each in enumerate(sentences)]
        spoilt = [row for row in self._prefer_kept(sentences, found) if not self._mend(sentences[row], found[row])]
        lacking = [row for row, each in enumerate(sentences) if self._lacks(each.constraints, found[row])]
        again = self._in_batches(lacking, sentences, search_again, wide.beam)
        found |= again
        spoilt = sorted({*spoilt}.difference(lacking).union(self._prefer_kept(sentences, again)))
        for row in spoilt:
            sentences[row] = self._without_placeholders(sentences[row])
        search_free = partial(search_again, banned=self._syntax if spoilt else None)
        found |= self._in_batches(spoilt, sentences, search_free, wide.beam)
        repeating = [row for row, fault in enumerate(faults) if fault]
        no_repeat = partial(search_again, options=replace(wide, no_repeat_ngram_size=_NO_REPEAT))
        again = self._in_batches(repeating, sentences, no_repeat, wide.beam)
        found |= {row: own for row, own in again.items() if self._is_kept(sentences[row], own)}
        texts = self._texts(sentences, [found[row].hypotheses[:candidates] for row in range(len(sentences))])
        return [(found[row], texts[row], fault) for row, fault in enumerate(faults)]

    def _in_batches(
        self,
        rows: Sequence[int],
        sentences: Sequence[Sentence],
        search: Callable[[list[int]], list[Found]],
        beam: int,
    ) -> dict[int, Found]:
        """Search for the sentences with the given indices, in batches of similar length."""
        lengths = {row: len(sentences[row].tokens) for row in rows}
        domains = {row: sentences[row].domain or "" for row in rows}
        batches = list(_batches(lengths, min(_BATCH_TOKENS, _BATCH_STATES // beam), domains))
        results = map(search, batches) if self._pool is None else self._pool.map(search, batches)
        return {
            row: own
            for batch, found in zip(batches, results, strict=True)
            for row, own in zip(batch, found, strict=True)
        }

    def _search_of(
        self, kind: Callable[..., Search], batch: Sequence[Sentence], options: Options, with_gates: bool
    ) -> Search:
        return kind(
            self._model,
            self._output(batch),
            [sentence.tokens for sentence in batch],
            self._route(batch),
            options,
            self._text.vocabulary,
            prefixes=[sentence.prefix for sentence in batch],
            with_gates=with_gates and self._model.has_gates,
            with_attention=any(sentence.marked.marks for sentence in batch),
        )

    def _output(self, batch: Sequence[Sentence]) -> Output:
        """Return the choice of the next token for a batch, among its shortlist if there is one."""
        if self._shortlist is not None:
            needed = {token for sentence in batch for token in sentence.needed}
            sources = [sentence.tokens for sentence in batch]
            tokens = self._shortlist.tokens(sources, self._domains_of(batch), needed)
            if tokens is not None:
                return self._model.output(self._text.vocabulary.pad, tokens)
        return self._full_output

    @cached_property
    def _full_output(self) -> Output:
        return self._model.output(self._text.vocabulary.pad)

    @cached_property
    def _syntax(self) -> np.ndarray:
        """Target tokens with characters of placeholders."""
        return self._text.targets_with(_SYNTAX)

    def _domains_of(self, batch: Sequence[Sentence]) -> set[str]:
        """Return the domains whose adapters may be used; gates use all."""
        if self._model.has_gates and not all(sentence.is_forced for sentence in batch):
            return set(self._domains)
        return {sentence.domain for sentence in batch if sentence.domain is not None}

    def _route(self, batch: Sequence[Sentence]) -> Route:
        route = {}
        if self._model.num_adapters:
            given = route["given"] = np.zeros((len(batch), self._model.num_adapters), np.float32)
            for row, sentence in zip(given, batch, strict=True):
                if sentence.domain is not None:
                    row[self._domains.index(sentence.domain)] = 1
            route["used"] = _used(given, all(sentence.is_forced for sentence in batch))
        if self._model.has_gates:
            route["is_forced"] = np.array([[sentence.is_forced] for sentence in batch], np.float32)
        return route

    def _lacks(self, constraints: Sequence[Constraint], found: Found) -> bool:
        text = self._text.decode(found.hypotheses[0].tokens) if constraints else ""
        return any(each.found_in(text) is None for each in constraints)

    def _is_kept(self, sentence: Sentence, found: Found) -> bool:
        """Return whether the best hypothesis, if there is any, keeps the placeholders of a sentence."""
        return any(sentence.is_kept(self._text.decode(each.tokens)) for each in found.hypotheses[:1])

    def _prefer_kept(self, sentences: Sequence[Sentence], found: Mapping[int, Found]) -> list[int]:
        """Put hypotheses that keep placeholders before others, and return the rows that have none."""
        others = [row for row, own in found.items() if not self._is_kept(sentences[row], own)]
        for row in others:
            found[row].hypotheses.sort(key=lambda each: not sentences[row].is_kept(self._text.decode(each.tokens)))  # noqa: B023
        return [row for row in others if not self._is_kept(sentences[row], found[row])]

    def _mend(self, sentence: Sentence, found: Found) -> bool:
        """Mend the placeholders of the best hypothesis, and return whether it keeps them then."""
        best = mended(found.hypotheses[0], sentence.marked.kept, self._text)
        if not self._is_kept(sentence, Found([best])):
            return False
        found.hypotheses[0] = best
        return True

    def _without_placeholders(self, sentence: Sentence) -> Sentence:
        """Return the sentence with its placeholders hidden from the model."""
        marked = Marked.read(sentence.marked.original, lambda _: False)
        return replace(sentence, marked=marked, tokens=self._text.encode(marked.text, sentence.domain), kept=())

    def _texts(self, sentences: Sequence[Sentence], found: Sequence[Sequence[Hypothesis]]) -> list[list[str]]:
        """Return the texts of translations, with the marks of their sources."""
        return [
            [sentence.marked.spaced(self._with_marks(sentence, each)) for each in own]
            for sentence, own in zip(sentences, found, strict=True)
        ]

    def _with_marks(self, sentence: Sentence, found: Hypothesis) -> str:
        marked, text = sentence.marked, self._text.decode(found.tokens)
        if not marked.marks:
            return text

        def count(part: str) -> int:
            return len(self._text.pieces(part))

        assert found.attention is not None
        end = len(sentence.tokens) - len(self._text.vocabulary.after) - 1
        shares = found.attention[:, end - count(marked.text) : end]
        placing = Placing(marked.text, text, list(marked.kept), self._text.spans(found.tokens), shares, count)
        return placing.text(marked.marks)


def _used(given: np.ndarray, is_forced: bool) -> np.ndarray:
    """Return the adapters that a batch uses: those with weights, or all if gates weight them. Graphs need at least one.

    Shape:
        given: B×D; result: A
    """
    used = np.flatnonzero(given.any(0)) if is_forced else np.arange(given.shape[1])
    return used if len(used) else np.zeros(1, np.int64)


def _batches(lengths: Mapping[_Key, int], most: int, domains: Mapping[_Key, str] | None = None) -> Iterator[list[_Key]]:
    """Yield batches of keys with similar lengths, longest first, each with at most ``most`` padded tokens.

    A batch has few domains. A single longer item is a batch by itself.
    """
    batch: list[_Key] = []
    of_batch: set[str] = set()
    domains = domains or dict.fromkeys(lengths, "")
    for key in sorted(lengths, key=lambda key: (-lengths[key], domains[key])):
        of_batch.add(domains[key])
        if batch and (lengths[batch[0]] * (len(batch) + 1) > most or len(of_batch) > _BATCH_DOMAINS):
            yield batch
            batch, of_batch = [], {domains[key]}
        batch.append(key)
    if batch:
        yield batch


def _times_repeated(tokens: list[int]) -> int:
    """Return how often the most repeated n-gram occurs in a row, among those that fill ``_REPEATED`` tokens; or 0."""
    most = 0
    for size in range(1, _LONGEST_REPEATED + 1):
        same = 0  # tokens in a row that equal the one ``size`` places before
        for one, other in zip(tokens, tokens[size:], strict=False):
            same = same + 1 if one == other else 0
            if same + size >= _REPEATED:
                most = max(most, 1 + same // size)
    return most
