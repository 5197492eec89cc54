"""Batched search for translations, repeated where terms or placeholders are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from fairseq_ext.runtime.model import Model, Route, attend, padded
from fairseq_ext.runtime.next_tokens import Options
from fairseq_ext.runtime.pieces import PLACEHOLDER
from fairseq_ext.runtime.placing import Marked, Placing
from fairseq_ext.runtime.search import Found, GreedySearch, Hypothesis, Search
from fairseq_ext.runtime.terms import Constraint, TermSearch
from fairseq_ext.runtime.vocabulary import Text

# Source tokens of a batch, including padding, times the beam size. With more, the states do not fit the caches.
_BATCH_TOKENS = 4000
_TERM_BEAM = 8  # minimum beam size of a search with constraints
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

    @property
    def constraints(self) -> list[Constraint]:
        return [*self.terms.values(), *self.kept]


class Searches:
    """Searches with one model. Several threads translate batches in parallel."""

    def __init__(self, model: Model, text: Text, domains: Sequence[str], threads: int) -> None:
        self._model, self._text, self._domains = model, text, domains
        self._output = model.output(text.vocabulary.pad)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def translate(
        self, sentences: Sequence[Sentence], options: Options, candidates: int, *, with_gates: bool
    ) -> list[tuple[Found, list[str]]]:
        """Return the hypotheses of each sentence, and the texts of its best translations."""
        sentences = list(sentences)
        found = self._search(sentences, options, with_gates)
        spoilt = [row for row, own in enumerate(found) if self._spoils(sentences[row], own)]
        for row in spoilt:
            sentences[row] = self._without_placeholders(sentences[row])
        again = self._search([sentences[row] for row in spoilt], options, with_gates)
        for row, own in zip(spoilt, again, strict=True):
            found[row] = own
        texts = self._texts(sentences, [own.hypotheses[:candidates] for own in found])
        return list(zip(found, texts, strict=True))

    def _search(self, sentences: Sequence[Sentence], options: Options, with_gates: bool) -> list[Found]:
        """Return the hypotheses of each sentence. If constraints are not met, search again with them."""

        search_kind = GreedySearch if options.beam == 1 else Search

        def search(rows: list[int]) -> list[Found]:
            return self._search_of(search_kind, [sentences[row] for row in rows], options, with_gates).run()

        found = self._in_batches(range(len(sentences)), sentences, search, options.beam)
        wide = replace(options, beam=max(options.beam, _TERM_BEAM))

        def search_again(rows: list[int]) -> list[Found]:
            kind = partial(
                TermSearch,
                constraints=[sentences[row].constraints for row in rows],
                lengths=[len(found[row].hypotheses[0].tokens) for row in rows],
                decode=self._text.decode,
            )
            return self._search_of(kind, [sentences[row] for row in rows], wide, with_gates).run()

        lacking = [row for row, sentence in enumerate(sentences) if self._lacks(sentence.constraints, found[row])]
        found |= self._in_batches(lacking, sentences, search_again, wide.beam)
        return [found[row] for row in range(len(sentences))]

    def _in_batches(
        self,
        rows: Sequence[int],
        sentences: Sequence[Sentence],
        search: Callable[[list[int]], list[Found]],
        beam: int,
    ) -> dict[int, Found]:
        """Search for the sentences with the given indices, in batches of similar length."""
        lengths = {row: len(sentences[row].tokens) for row in rows}
        batches = list(_batches(lengths, _BATCH_TOKENS // beam))
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
            self._output,
            [sentence.tokens for sentence in batch],
            self._route(batch),
            options,
            self._text.vocabulary,
            prefixes=[sentence.prefix for sentence in batch],
            with_gates=with_gates and self._model.has_gates,
        )

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

    def _spoils(self, sentence: Sentence, found: Found) -> bool:
        """Return whether a translation's placeholders differ from those of its sentence."""
        if not sentence.kept:
            return False
        text = self._text.decode(found.hypotheses[0].tokens)
        others = (each[0] for each in PLACEHOLDER.finditer(text) if each[0] not in sentence.marked.kept)
        return self._lacks(sentence.kept, found) or any(others)

    def _without_placeholders(self, sentence: Sentence) -> Sentence:
        """Return the sentence with its placeholders hidden from the model."""
        marked = Marked.read(sentence.marked.original, lambda _: False)
        return replace(sentence, marked=marked, tokens=self._text.encode(marked.text, sentence.domain), kept=())

    def _texts(self, sentences: Sequence[Sentence], found: Sequence[Sequence[Hypothesis]]) -> list[list[str]]:
        """Return the texts of translations, with the marks of their sources."""
        texts = [[self._text.decode(each.tokens) for each in own] for own in found]
        lengths = {
            (row, rank): len(sentence.tokens)
            for row, sentence in enumerate(sentences)
            for rank in range(len(found[row]) if sentence.marked.marks else 0)
        }
        for batch in _batches(lengths, _BATCH_TOKENS):
            own = [sentences[row] for row, _ in batch]
            targets = [found[row][rank].tokens for row, rank in batch]
            sources = padded([sentence.tokens for sentence in own], self._text.vocabulary.pad)
            shares = attend(self._model, sources, self._route(own), targets, self._text.vocabulary.first)
            for (row, rank), tokens, share in zip(batch, targets, shares, strict=True):
                texts[row][rank] = self._with_marks(sentences[row], texts[row][rank], tokens, share)
        return texts

    def _with_marks(self, sentence: Sentence, text: str, tokens: np.ndarray, shares: np.ndarray) -> str:
        def count(part: str) -> int:
            return len(self._text.pieces(part))

        marked = sentence.marked
        end = len(sentence.tokens) - len(self._text.vocabulary.after) - 1
        shares = shares[:, end - count(marked.text) : end]
        placing = Placing(marked.text, text, list(marked.kept), self._text.spans(tokens), shares, count)
        return placing.text(marked.marks)


def _used(given: np.ndarray, is_forced: bool) -> np.ndarray:
    """Return the adapters that a batch uses: those with weights, or all if gates weight them. Graphs need at least one.

    Shape:
        given: B×D; result: A
    """
    used = np.flatnonzero(given.any(0)) if is_forced else np.arange(given.shape[1])
    return used if len(used) else np.zeros(1, np.int64)


def _batches(lengths: Mapping[_Key, int], most: int) -> Iterator[list[_Key]]:
    """Yield batches of keys with similar lengths, longest first, each with at most ``most`` padded tokens.

    A single longer item is a batch by itself.
    """
    batch: list[_Key] = []
    for key in sorted(lengths, key=lambda key: -lengths[key]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(key)
    if batch:
        yield batch
