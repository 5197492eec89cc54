"""Translating with an exported system: text in, text out, each sentence by a route of its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.corpora.languages import has_spaces
from fairseq_ext.corpora.normalise import normalise_lines
from fairseq_ext.corpora.raw_text import canonical
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.manifest import (
    BASE,
    CLASSIFIER,
    CLASSIFIER_FOLDER,
    FLOAT32,
    GATES,
    GRAPH_FILES,
    Manifest,
    verify,
)
from fairseq_ext.runtime.marks import without_marks
from fairseq_ext.runtime.model import Model, Route, attend, padded
from fairseq_ext.runtime.pieces import PLACEHOLDER
from fairseq_ext.runtime.placing import LONGEST_KEPT, Marked, Placing
from fairseq_ext.runtime.requests import Answer, Candidate, Request, TokenGates, join_answers
from fairseq_ext.runtime.search import Found, Hypothesis, Options, Search, Symbols
from fairseq_ext.runtime.sentences import TooLongError, split_sentences
from fairseq_ext.runtime.terms import Constraint, Glossary, Term, TermSearch
from fairseq_ext.runtime.vocabulary import Text

# Of the source, padding included, in all hypotheses of a batch: the states of so many stay near the processor.
_BATCH_TOKENS = 4000
_MOST_CANDIDATES = 100
_TERM_BEAM = 8  # of a search with terms, at least


@dataclass(frozen=True)
class _Sentence:
    """What is translated as one: a request, or a part of one.

    Attributes:
        request: its number.
        text: with its marks.
        marked: the same, read.
        tokens: of the source.
        prefix: tokens with which the translation begins.
        domain: number of the adapter that is asked for, or None.
        is_forced: whether gates give way to it.
        terms: constraints by term of the source.
        kept: constraints of placeholders.
    """

    request: int
    text: str
    marked: Marked
    tokens: np.ndarray
    prefix: list[int]
    domain: int | None
    is_forced: bool
    terms: Mapping[str, Constraint]
    kept: Sequence[Constraint]

    @property
    def constraints(self) -> list[Constraint]:
        return [*self.terms.values(), *self.kept]


class SystemTranslator:
    """Translates with an exported system; make it by :meth:`load`. Several threads may use one.

    Args:
        manifest: of the system.
        model: its graphs.
        text: its vocabulary.
        classifier: that routes, with a method ``predict``; None for none.
        threads: that translate batches side by side.
    """

    def __init__(self, manifest: Manifest, model: Model, text: Text, classifier: Any, threads: int = 1) -> None:
        self.manifest, self.model, self.text, self.classifier = manifest, model, text, classifier
        self.options = Options(**manifest.generation)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._has_adapters = model.num_adapters > 0
        self._has_tags = text.vocabulary.has_tags
        self.terms = Glossary()

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        device: str = "cpu",
        decoding_precision: str = FLOAT32,
        threads: int = 1,
        terms: Path | None = None,
    ) -> SystemTranslator:
        """Load an exported system, after reading all its files again.

        Args:
            directory: of the export.
            device: ``cpu``, or ``cuda`` where ONNX Runtime has it.
            decoding_precision: of weights and products: float32 or int8.
            threads: that translate.
            terms: file of terms that all translations keep, see :meth:`Glossary.read`.

        Raises:
            InputError: naming the file that is missing, damaged or unfit, or the option.
        """
        directory = Path(directory)
        manifest = verify(directory)
        encoder, decoder = (directory / name for name in GRAPH_FILES[decoding_precision])
        text = Text.read(directory, manifest.languages[1])
        classifier = None
        if manifest.classifier is not None:
            classifier = _load_classifier(directory / CLASSIFIER_FOLDER, manifest.classifier)
        translator = cls(manifest, Model(encoder, decoder, 1, device), text, classifier, threads)
        translator.terms = Glossary() if terms is None else translator.spelled(Glossary.read(terms))
        return translator

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.manifest.languages

    @property
    def domains(self) -> list[str]:
        """In the order of weights."""
        return list(self.manifest.domains)

    @property
    def routes(self) -> list[str]:
        """All that a request may ask for."""
        takes_domains = self._has_adapters or self._has_tags
        return [
            *([GATES] if self.model.has_gates else []),
            *([CLASSIFIER] if self.classifier is not None and takes_domains else []),
            *([] if self._has_tags else [BASE]),
            *(self.domains if takes_domains else []),
        ]

    @property
    def default_route(self) -> str | None:
        """Gates, else the classifier, else the base of a system without adapters; None if one has to be given."""
        for route in (GATES, CLASSIFIER):
            if route in self.routes:
                return route
        return None if self._has_adapters or self._has_tags else BASE

    def translate(
        self,
        requests: Sequence[Request],
        *,
        beam: int | None = None,
        candidates: int = 1,
        with_gates: bool = True,
        label: Callable[[int], str] = lambda index: f"request {index + 1}",
    ) -> list[Answer]:
        """Translate requests, all in one go whatever their routes.

        Args:
            requests: in any order.
            beam: width of the search (default: that of the export).
            candidates: how many translations of each are wanted, the beam's width at most.
            with_gates: fill ``gates`` and ``weights`` of the answers.
            label: what messages call a request of this index.

        Raises:
            InputError: naming the request whose route is unknown, or whose text holds a reserved symbol or cannot be
                cut into sentences that are short enough.
        """
        options = self.options if beam is None else replace(self.options, beam=beam)
        if not 1 <= candidates <= options.beam <= _MOST_CANDIDATES:
            raise InputError(
                f"candidates {candidates}, beam {options.beam}: give 1 to {_MOST_CANDIDATES}, and no more candidates "
                "than beam"
            )
        texts = self.normalise([request.text for request in requests])
        routes = [self._route(request, label(index)) for index, request in enumerate(requests)]
        domains = self._domains([without_marks(text) for text in texts], routes)
        sentences = [
            self._sentence(index, requests[index], part, route, domain, label(index))
            for index, (text, route, domain) in enumerate(zip(texts, routes, domains, strict=True))
            for part in self._cut(text, domain, label(index))
        ]
        answers: list[list[Answer]] = [[] for _ in requests]
        all_found = self._search(sentences, options, with_gates)
        lacking = [row for row, own in enumerate(all_found) if self._spoils(sentences[row], own)]
        for row in lacking:
            sentences[row] = self._without_placeholders(sentences[row])
        for row, own in zip(
            lacking, self._search([sentences[row] for row in lacking], options, with_gates), strict=True
        ):
            all_found[row] = own
        all_texts = self._texts(sentences, [own.hypotheses[:candidates] for own in all_found])
        for sentence, found, own_texts in zip(sentences, all_found, all_texts, strict=True):
            where = (routes[sentence.request], domains[sentence.request])
            answer = self._answer(found, own_texts, *where, with_gates=with_gates)
            kept = {term: each.found_in(without_marks(own_texts[0])) for term, each in sentence.terms.items()}
            answers[sentence.request].append(replace(answer, terms=kept))
        return [
            join_answers(own) if own else Answer((Candidate(text, 0.0),), route, domain)
            for own, text, route, domain in zip(answers, texts, routes, domains, strict=True)
        ]

    def check(self, request: Request, label: str = "request") -> None:
        """Check that a request can be translated.

        Raises:
            InputError: as :meth:`translate`, with ``label`` for a name.
        """
        route = self._route(request, label)
        [text] = self.normalise([request.text])
        domain = route if route in self.domains else self.domains[0] if self._has_tags else None
        self._cut(text, domain, label)

    def count_pieces(self, text: str) -> int:
        """How long a text is: as many pieces, about, and the end of the sentence."""
        return len(self.text.pieces(text)) + 1

    def normalise(self, texts: Sequence[str], side: int = 0) -> list[str]:
        """Texts as those that the system was trained on, before they were cut into pieces."""
        lines = [canonical(text, Counter()) for text in texts]
        options = self.manifest.text
        return lines if options is None else normalise_lines(lines, self.languages[side], options)

    def spelled(self, terms: Glossary) -> Glossary:
        """Terms as the system spells its text."""
        return Glossary(
            Term(source, tuple(self.normalise(term.targets, 1)))
            for term in terms
            for source in self.normalise([term.source])
        )

    def _route(self, request: Request, label: str) -> str:
        route = request.route or self.default_route
        if route is None:
            raise InputError(f"{label}: {self.name} has to be told how to route; give one of {', '.join(self.routes)}")
        if route not in self.routes:
            raise InputError(f"{label}: {self.name} has no route {route!r}; there are {', '.join(self.routes)}")
        return route

    def _domains(self, texts: Sequence[str], routes: Sequence[str]) -> list[str | None]:
        """The domain by which each text is translated, None without."""
        found: list[str | None] = [route if route in self.manifest.domains else None for route in routes]
        asked = [index for index, route in enumerate(routes) if route == CLASSIFIER and texts[index]]
        if asked:
            best = self.classifier.predict([texts[index] for index in asked]).argmax(axis=1)
            for index, number in zip(asked, best.tolist(), strict=True):
                found[index] = self.domains[number]
        return found

    def _sentence(
        self, index: int, request: Request, text: str, route: str, domain: str | None, label: str
    ) -> _Sentence:
        marked = self._read(text)
        number = None if domain is None else self.manifest.domains.index(domain)
        prefix = [*self.text.vocabulary.prefix, *(self.text.encode_prefix(request.prefix) if request.prefix else [])]
        glossaries = [self.terms, *([self.spelled(request.terms)] if request.terms else [])]
        terms = {term.source: term.targets for glossary in glossaries for term in glossary.found_in(marked.text)}
        encode, is_spaced = self.text.encode_exactly, has_spaces(self.languages[1])
        constraints = {term: Constraint.of(terms[term], encode, has_spaces=is_spaced) for term in terms}
        kept = [Constraint.exactly(each, count, encode(each)) for each, count in marked.kept.items()]
        tokens = self._encode(marked, domain, label)
        return _Sentence(index, text, marked, tokens, prefix, number, route != GATES, constraints, kept)

    def _read(self, text: str) -> Marked:
        return Marked.read(text, lambda placeholder: 0 < len(self.text.encode_exactly(placeholder)) <= LONGEST_KEPT)

    def _cut(self, text: str, domain: str | None, label: str) -> list[str]:
        """A text, or its sentences if it is too long as a whole; of an empty one, none."""
        if not without_marks(text).strip():
            return []
        longest = self.text.vocabulary.longest_source
        if len(self._encode(self._read(text), domain, label)) <= longest:
            return [text]
        sentences = split_sentences(text)
        worst = max(len(self._encode(self._read(sentence), domain, label)) for sentence in sentences)
        if worst > longest:
            raise TooLongError(
                f"{label}: has a sentence of {worst} pieces, and {self.name} takes {longest}; break it up, by full "
                "stops or over several lines"
            )
        return sentences

    def _encode(self, marked: Marked, domain: str | None, label: str) -> np.ndarray:
        try:
            return self.text.encode(marked.text, domain)
        except InputError as error:
            raise InputError(f"{label}: {error}") from None

    def _texts(self, sentences: Sequence[_Sentence], found: Sequence[Sequence[Hypothesis]]) -> list[list[str]]:
        """The texts of translations, with the marks of their sources."""
        texts = [[self.text.decode(each.tokens) for each in own] for own in found]
        jobs = [
            (row, rank)
            for row, sentence in enumerate(sentences)
            for rank in range(len(found[row]) if sentence.marked.marks else 0)
        ]
        for numbers in _batches([len(sentences[row].tokens) for row, _ in jobs], _BATCH_TOKENS):
            batch = [jobs[number] for number in numbers]
            own = [sentences[row] for row, _ in batch]
            sources = padded([sentence.tokens for sentence in own], self.text.vocabulary.pad)
            targets = [found[row][rank].tokens for row, rank in batch]
            shares = attend(self.model, sources, self._routes(own), targets, self.text.vocabulary.first)
            for (row, rank), sentence, tokens, share in zip(batch, own, targets, shares, strict=True):
                texts[row][rank] = self._with_marks(sentence, texts[row][rank], tokens, share)
        return texts

    def _with_marks(self, sentence: _Sentence, text: str, tokens: np.ndarray, shares: np.ndarray) -> str:
        marked, vocabulary = sentence.marked, self.text.vocabulary
        size = len(self.text.pieces(marked.text))
        first = len(sentence.tokens) - len(vocabulary.after) - 1 - size
        columns = slice(first, first + size)
        spans = self.text.spans(tokens)
        placing = Placing(
            marked.text, text, list(marked.kept), spans, shares[:, columns], lambda part: len(self.text.pieces(part))
        )
        return placing.text(marked.marks)

    def _search(self, sentences: Sequence[_Sentence], options: Options, with_gates: bool) -> list[Found]:
        """What is found for each sentence; where terms are lacking, they are constraints of a second search."""
        found = self._found(sentences, lambda batch: self._search_of(Search, batch, options, with_gates).run(), options)
        wide = replace(options, beam=max(options.beam, _TERM_BEAM))
        lacking = [row for row, sentence in enumerate(sentences) if self._lacks(sentence.constraints, found[row])]
        lengths = {id(sentences[row]): len(found[row].hypotheses[0].tokens) for row in lacking}

        def search_again(batch: Sequence[_Sentence]) -> list[Found]:
            search = partial(
                TermSearch,
                constraints=[sentence.constraints for sentence in batch],
                lengths=[lengths[id(sentence)] for sentence in batch],
                decode=self.text.decode,
            )
            return self._search_of(search, batch, wide, with_gates).run()

        again = self._found([sentences[row] for row in lacking], search_again, wide)
        for row, own in zip(lacking, again, strict=True):
            found[row] = own
        return found

    def _lacks(self, constraints: Sequence[Constraint], found: Found) -> bool:
        text = self.text.decode(found.hypotheses[0].tokens) if constraints else ""
        return any(each.found_in(text) is None for each in constraints)

    def _spoils(self, sentence: _Sentence, found: Found) -> bool:
        """Whether the placeholders of a translation are others than those of its sentence."""
        if not sentence.kept:
            return False
        text = self.text.decode(found.hypotheses[0].tokens)
        others = (each[0] for each in PLACEHOLDER.finditer(text) if each[0] not in sentence.marked.kept)
        return self._lacks(sentence.kept, found) or any(others)

    def _without_placeholders(self, sentence: _Sentence) -> _Sentence:
        """A sentence whose placeholders the model does not see."""
        marked = Marked.read(sentence.text, lambda _: False)
        domain = None if sentence.domain is None else self.domains[sentence.domain]
        return replace(sentence, marked=marked, tokens=self.text.encode(marked.text, domain), kept=())

    def _search_of(
        self, kind: Callable[..., Search], batch: Sequence[_Sentence], options: Options, with_gates: bool
    ) -> Search:
        vocabulary = self.text.vocabulary
        return kind(
            self.model,
            [sentence.tokens for sentence in batch],
            self._routes(batch),
            options,
            Symbols(vocabulary.pad, vocabulary.unk, vocabulary.last, vocabulary.first),
            vocabulary.longest_target,
            prefixes=[sentence.prefix for sentence in batch],
            with_gates=with_gates and self.model.has_gates,
        )

    def _found(
        self, sentences: Sequence[_Sentence], search: Callable[[Sequence[_Sentence]], list[Found]], options: Options
    ) -> list[Found]:
        """Search in batches of sentences of like length."""
        batches = list(_batches([len(sentence.tokens) for sentence in sentences], _BATCH_TOKENS // options.beam))
        of_batches = [[sentences[row] for row in rows] for rows in batches]
        results = map(search, of_batches) if self._pool is None else self._pool.map(search, of_batches)
        rows = [row for batch in batches for row in batch]
        found = dict(zip(rows, [own for batch in results for own in batch], strict=True))
        return [found[row] for row in range(len(sentences))]

    def _routes(self, batch: Sequence[_Sentence]) -> Route:
        if not self._has_adapters:
            return Route()
        given = np.zeros((len(batch), self.model.num_adapters), np.float32)
        for row, sentence in zip(given, batch, strict=True):
            if sentence.domain is not None:
                row[sentence.domain] = 1
        if not self.model.has_gates:
            return Route(given)
        return Route(given, np.array([[sentence.is_forced] for sentence in batch], np.float32))

    def _answer(
        self, found: Found, texts: Sequence[str], route: str, domain: str | None, *, with_gates: bool
    ) -> Answer:
        # fairseq prints logarithms to base 2.
        translations = tuple(
            Candidate(text, own.score / math.log(2)) for text, own in zip(texts, found.hypotheses, strict=False)
        )
        if not with_gates:
            return Answer(translations, route, domain)
        best = found.hypotheses[0]
        if route != GATES or found.gates is None or best.gates is None:
            return Answer(translations, route, domain, weights=self._weights(None, domain))
        gates = {"encoder": found.gates.tolist(), "decoder": best.gates.mean(0).tolist()}
        tokens = TokenGates(self.text.symbols(best.tokens), best.gates.mean(1).tolist())
        return Answer(translations, route, domain, gates, self._weights(gates, domain), tokens)

    def _weights(self, gates: dict[str, list[list[float]]] | None, domain: str | None) -> list[float] | None:
        if not self._has_adapters:
            return None
        if gates is None:
            return [float(name == domain) for name in self.domains]
        layers = [layer for rows in gates.values() for layer in rows]
        return [sum(column) / len(layers) for column in zip(*layers, strict=True)]


def _batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Rows of like lengths, the longest first, so many that a batch has ``most`` tokens."""
    rows: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if rows and lengths[rows[0]] * (len(rows) + 1) > most:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


def _load_classifier(folder: Path, kind: str) -> Any:
    if kind == "tfidf":
        from fairseq_ext.teacher.ngram_model import NgramModel

        return NgramModel.load(folder)
    from fairseq_ext.teacher.classifier import load_classifier  # of other kinds, which need torch

    return load_classifier(folder, kind)
