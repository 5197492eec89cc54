"""Translate text with an exported system. Each request has its own route."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.classifiers.classifier import load_classifier
from fairseq_ext.serve.runtime.manifest import (
    BASE,
    CLASSIFIER,
    CLASSIFIER_FOLDER,
    FLOAT32,
    GATES,
    PRECISIONS,
    Manifest,
    verify,
)
from fairseq_ext.serve.runtime.model import Model
from fairseq_ext.serve.runtime.next_tokens import Options
from fairseq_ext.serve.runtime.pieces import MARK, between_marks, keep, stow, without_marks
from fairseq_ext.serve.runtime.placing import LONGEST_KEPT, Marked
from fairseq_ext.serve.runtime.requests import (
    IN_PARTS,
    UNTRANSLATED,
    Answer,
    Candidate,
    Request,
    TokenGates,
    join_answers,
)
from fairseq_ext.serve.runtime.search import Found
from fairseq_ext.serve.runtime.searches import Searches, Sentence
from fairseq_ext.serve.runtime.sentences import cut
from fairseq_ext.serve.runtime.shortlist import NONE, SYSTEM, Shortlist, read_shortlist
from fairseq_ext.serve.runtime.tags import cut as split_at
from fairseq_ext.serve.runtime.terms import Constraint, Glossary, Term
from fairseq_ext.serve.runtime.vocabulary import REMEDY, Text
from fairseq_ext.text.languages import has_spaces
from fairseq_ext.text.normalise import normalise_lines
from fairseq_ext.text.placeholders import keeps
from fairseq_ext.text.raw_text import canonical

_MOST_CANDIDATES = 100
# A word, or a symbol with its modifiers, such as an emoji of several characters. In CJK scripts, a character.
_UNIT = re.compile(
    "[\u2e80-\ufaff]|[^\\W\u2e80-\ufaff][\\w\u0300-\u036f]*"
    "|[^\\w\\s](?:[\ufe0f\u20e3\U0001f3fb-\U0001f3ff]|\u200d[^\\w\\s]?)*"
)


@dataclass(frozen=True)
class _Question:
    """A request after reading: its text, route, domain, and the sentences to translate."""

    text: str
    route: str
    domain: str | None
    request: Request
    glossaries: Sequence[Glossary]
    sentences: list[Sentence] = field(default_factory=list)


class SystemTranslator:
    """Translates text with an exported system.

    Create it with :meth:`load`. Several threads may share one instance.
    """

    def __init__(
        self,
        manifest: Manifest,
        model: Model,
        text: Text,
        classifier: Any,
        threads: int = 1,
        shortlist: Shortlist | None = None,
    ) -> None:
        self.manifest, self.model, self.text, self.classifier = manifest, model, text, classifier
        self.options = Options(**manifest.generation)
        self.terms = Glossary()
        self._searches = Searches(model, text, manifest.domains, threads, shortlist)
        self._has_tags = text.vocabulary.has_tags
        self._takes_domains = model.num_adapters > 0 or self._has_tags

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        device: str = "cpu",
        decoding_precision: str = FLOAT32,
        threads: int = 1,
        terms: Path | None = None,
        shortlist: str = SYSTEM,
    ) -> SystemTranslator:
        """Load an exported system. The checksums of all its files are verified first.

        Args:
            directory: path of the exported system.
            device: ``cpu``, or ``cuda`` if ONNX Runtime supports it.
            decoding_precision: precision of weights and matrix products: ``float32`` or ``int8``.
            threads: number of batches to translate in parallel, each in one thread.
            shortlist: ``system`` to choose words among those that the system's lexicons have for the text, which is
                faster, or ``none`` to choose among all.
            terms: glossary file whose terms apply to every translation; see :meth:`Glossary.read`.

        Raises:
            InputError: if a file is missing, damaged or incompatible, or the device or precision is unknown.
        """
        directory = Path(directory)
        manifest = verify(directory)
        check_choice(decoding_precision, PRECISIONS, "decoding_precision")
        text = Text.read(directory, manifest.languages[1], manifest.domains)
        classifier = None
        if manifest.classifier is not None:
            classifier = load_classifier(directory / CLASSIFIER_FOLDER, manifest.classifier)
        check_choice(shortlist, (SYSTEM, NONE), "shortlist")
        lexicons = read_shortlist(directory, text.vocabulary) if shortlist == SYSTEM else None
        model = Model(directory, decoding_precision, 1, device)
        model.tables.check(len(text.vocabulary.source), len(text.vocabulary.target))
        if model.num_adapters not in (0, len(manifest.domains)):
            raise InputError(f"{directory}: has {model.num_adapters} adapters for {len(manifest.domains)} domains")
        translator = cls(manifest, model, text, classifier, threads, lexicons)
        translator._try(directory)
        translator.terms = translator.spelled(Glossary.read(terms) if terms else None)
        return translator

    def _try(self, directory: Path) -> None:
        """Translate two words by each route, so that files that do not fit each other are found at once."""
        options = self.options
        self.options = replace(options, beam=min(options.beam, 2), max_len_a=0, max_len_b=2, min_len=1)
        try:
            self.translate([Request("a b", route) for route in self.routes])
        except InputError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise InputError(f"{directory}: its files do not fit each other ({reason}); {REMEDY}") from None
        self.options = options

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.manifest.languages

    @property
    def domains(self) -> list[str]:
        """Domain names, in the order of the weights."""
        return list(self.manifest.domains)

    @property
    def base(self) -> str | None:
        """Origin and licence of the pretrained base, on one line; None if the base was trained from nothing."""
        return self.manifest.base.text if self.manifest.base else None

    @property
    def routes(self) -> list[str]:
        """Routes that a request may name."""
        return [
            *([GATES] if self.model.has_gates else []),
            *([CLASSIFIER] if self.classifier is not None and self._takes_domains else []),
            *([] if self._has_tags else [BASE]),
            *(self.domains if self._takes_domains else []),
        ]

    @property
    def default_route(self) -> str | None:
        """Route of requests that name none: ``gates`` if available, else ``classifier``.

        A system that does not use domains has ``base``. None if every request has to name a route.
        """
        for route in (GATES, CLASSIFIER):
            if route in self.routes:
                return route
        return None if self._takes_domains else BASE

    def translate(
        self,
        requests: Sequence[Request],
        *,
        beam: int | None = None,
        candidates: int = 1,
        with_gates: bool = True,
        label: Callable[[int], str] = lambda index: f"request {index + 1}",
    ) -> list[Answer]:
        """Translate requests in one batch; their routes may differ.

        Args:
            requests: requests in any order. The answers have the same order.
            beam: beam size (default: the exported system's).
            candidates: number of translations per request, at most the beam size.
            with_gates: whether to fill ``gates``, ``weights`` and ``tokens`` of the answers.
            label: function that returns the name of a request in error messages, given its index.

        Raises:
            InputError: if a route is unknown, a text contains a reserved symbol, or ``beam`` or ``candidates`` is
                out of range.
        """
        options = self.options if beam is None else replace(self.options, beam=beam)
        if not 1 <= candidates <= options.beam <= _MOST_CANDIDATES:
            raise InputError(
                f"candidates is {candidates}, beam {options.beam}; both must be from 1 to {_MOST_CANDIDATES}, and "
                "candidates at most beam"
            )
        divided = [request.divided() for request in requests]
        parts = [(index, part) for index, (own, _) in enumerate(divided) for part in own]
        questions = self._read([part for _, part in parts], lambda place: label(parts[place][0]))
        answers = iter(self._answers(questions, options, candidates, with_gates=with_gates))
        return [join_answers(list(islice(answers, len(own))), join) for own, join in divided]

    def check(self, request: Request, label: str = "request") -> None:
        """Check that a request can be translated, and raise :class:`InputError` otherwise."""
        self._read(request.divided()[0], lambda _: label)

    def count_pieces(self, text: str) -> int:
        """Return the approximate length of a text in subwords, including the end of the sentence."""
        return len(self.text.pieces(text)) + 1

    def extra_work(self, request: Request) -> int:
        """Return what a part of a text adds to the work of its search: subwords of required terms, and marks."""
        targets = [
            term.targets
            for glossary in (self.terms, request.terms)
            for term in (glossary.found_in(without_marks(request.text)) if glossary else ())
        ]
        terms = sum(max(map(self.count_pieces, own)) for own in targets)
        return terms + len(MARK.findall(request.text))

    def normalise(self, texts: Sequence[str], side: int = 0) -> list[str]:
        """Normalise texts as the training data was normalised before subword segmentation.

        Args:
            side: 0 for text in the source language, 1 for the target language.
        """
        lines = [canonical(text, Counter()) for text in texts]
        options = self.manifest.text
        return lines if options is None else normalise_lines(lines, self.languages[side], options)

    def spelled(self, terms: Glossary | None) -> Glossary:
        """Return a glossary with all terms and targets normalised."""
        return Glossary(
            Term(source, tuple(self.normalise(term.targets, 1)))
            for term in terms or ()
            for source in self.normalise([term.source])
        )

    def _read(self, requests: Sequence[Request], label: Callable[[int], str]) -> list[_Question]:
        stowed = [stow(request.text) for request in requests]
        normal = self.normalise([text for text, _ in stowed])
        texts = [text.translate(held) for text, (_, held) in zip(normal, stowed, strict=True)]
        routes = [self._route(request, label(index)) for index, request in enumerate(requests)]
        domains = self._domains([without_marks(text) for text in texts], routes)
        given = {id(request.terms): request.terms for request in requests}  # requests may share a glossary
        spelled = {key: self.spelled(terms) for key, terms in given.items()}
        questions = []
        for index, (request, text, route, domain) in enumerate(zip(requests, texts, routes, domains, strict=True)):
            own = _Question(text, route, domain, request, (self.terms, spelled[id(request.terms)]))
            try:
                own.sentences.extend(self._sentence(own, part) for part in self._parts(text, domain))
            except InputError as error:
                raise InputError(f"{label(index)}: {error}") from None
            questions.append(own)
        return questions

    def _route(self, request: Request, label: str) -> str:
        route = request.route or self.default_route
        if route is None:
            raise InputError(f"{label}: {self.name} needs a route; choose one of {', '.join(self.routes)}")
        if route not in self.routes:
            raise InputError(f"{label}: {self.name} has no route {route!r}; choose one of {', '.join(self.routes)}")
        return route

    def _domains(self, texts: Sequence[str], routes: Sequence[str]) -> list[str | None]:
        """Return the domain of each text, or None where the route has none."""
        found: list[str | None] = [route if route in self.manifest.domains else None for route in routes]
        asked = [index for index, route in enumerate(routes) if route == CLASSIFIER and texts[index]]
        if asked:
            probs = self.classifier.predict([texts[index] for index in asked])
            # One column more than domains is the class base, which has no adapter; a system with tags has no base.
            best = (probs[:, : len(self.domains)] if self._has_tags else probs).argmax(axis=1)
            for index, number in zip(asked, best.tolist(), strict=True):
                found[index] = self.domains[number] if number < len(self.domains) else None
        return found

    def _parts(self, text: str, domain: str | None) -> Iterator[Marked]:
        """Yield a text, in parts if it is too long for the model. Empty text yields nothing."""
        if not without_marks(text).strip():
            return
        room = self.text.vocabulary.longest_source - len(self.text.encode("", domain))
        for part, _ in cut(text, room, lambda part: len(self.text.pieces(self._marked(part).text))):
            yield self._marked(part)

    def _marked(self, text: str) -> Marked:
        """Read a text with marks. Symbols and words that the model does not know are kept like placeholders."""
        parts = [_UNIT.sub(self._kept_if_unknown, part) if is_text else part for part, is_text in split_at(MARK, text)]
        text = "".join(parts)
        return Marked.read(text, lambda placeholder: 0 < len(self.text.encode_exactly(placeholder)) <= LONGEST_KEPT)

    def _kept_if_unknown(self, unit: re.Match[str]) -> str:
        is_plain = unit[0].isascii() and unit[0].isalnum()  # its letters may be known in other words
        return keep(unit[0]) if not is_plain and self.text.is_unknown(unit[0]) else unit[0]

    def _sentence(self, question: _Question, marked: Marked) -> Sentence:
        prefix = [*self.text.vocabulary.prefix, *self.text.encode_prefix(question.request.prefix)]
        tokens = self.text.encode(marked.text, question.domain)
        constraints = self._constraints(marked, question.glossaries)
        is_forced = question.route != GATES
        return Sentence(marked, tokens, prefix, question.domain, is_forced, *constraints, question.request.dialect)

    def _constraints(
        self, marked: Marked, glossaries: Sequence[Glossary]
    ) -> tuple[dict[str, Constraint], list[Constraint]]:
        """Return the constraints on a translation: those of terms, by source term, and those of placeholders."""
        encode, is_spaced = self.text.encode_exactly, has_spaces(self.languages[1])
        terms = {term.source: term.targets for glossary in glossaries for term in glossary.found_in(marked.words)}
        return (
            {term: Constraint.of(own, encode, has_spaces=is_spaced) for term, own in terms.items()},
            [Constraint.exactly(each, count, encode(each)) for each, count in marked.kept.items()],
        )

    def _answers(
        self, questions: Sequence[_Question], options: Options, candidates: int, *, with_gates: bool
    ) -> list[Answer]:
        asked = [(question, sentence) for question in questions for sentence in question.sentences]
        searched = [sentence for _, sentence in asked if sentence.marked.has_words]
        found = iter(self._searches.translate(searched, options, candidates, with_gates=with_gates))
        answers = []
        for question, sentence in asked:
            answer = Answer((), question.route, question.domain)
            if sentence.marked.has_words:
                answer = self._answer(question, sentence, *next(found), with_gates)
            if not answer.candidates:
                parts = partial(self._answers, options=options, candidates=candidates, with_gates=with_gates)
                answer = self._in_parts(question, sentence, parts)
            answers.append(answer)
        left = iter(answers)
        return [
            join_answers(list(islice(left, len(question.sentences))))
            if question.sentences
            else Answer((Candidate(question.text, 0.0),), question.route, question.domain)
            for question in questions
        ]

    def _in_parts(
        self, question: _Question, sentence: Sentence, answers: Callable[[Sequence[_Question]], list[Answer]]
    ) -> Answer:
        """Translate the words between the marks of a sentence. Where that does not help, it stays as it is."""
        original = sentence.marked.original
        pieces, answer = between_marks(original), Answer((), question.route, question.domain)
        if pieces.texts and pieces.texts != [original]:
            parts = [
                replace(question, text=text, sentences=[self._sentence(question, self._marked(text))])
                for text in pieces.texts
            ]
            joined = join_answers(answers(parts), pieces.join)
            answer = _kept(replace(joined, notes=(*joined.notes, IN_PARTS)), sentence)
        if not answer.candidates:
            text = MARK.sub(lambda mark: mark[1] or mark[0], original)
            notes = (UNTRANSLATED,) if any(map(str.isalpha, text)) else ()
            answer = replace(answer, candidates=(Candidate(text, 0.0),), notes=notes)
        return replace(answer, placeholders=sentence.marked.placeholders)

    def _answer(
        self,
        question: _Question,
        sentence: Sentence,
        found: Found,
        texts: Sequence[str],
        fault: str | None,
        with_gates: bool,
    ) -> Answer:
        """Return the answer to a sentence, with the candidates that keep its placeholders."""
        # fairseq prints logarithms to base 2.
        candidates = tuple(
            Candidate(text, own.score / math.log(2)) for text, own in zip(texts, found.hypotheses, strict=False)
        )
        terms = {term: each.found_in(without_marks(texts[0])) for term, each in sentence.terms.items()}
        kept, notes = sentence.marked.placeholders, (fault,) if fault else ()
        answer = Answer(candidates, question.route, question.domain, terms=terms, placeholders=kept, notes=notes)
        answer = _kept(answer, sentence)
        best = found.hypotheses[0]
        if not with_gates or not self.model.num_adapters:
            return answer
        if question.route != GATES or found.gates is None or best.gates is None:
            return replace(answer, weights=[float(name == question.domain) for name in self.domains])
        layers = np.concatenate([found.gates, best.gates.mean(0)])
        return replace(
            answer,
            gates={"encoder": found.gates.tolist(), "decoder": best.gates.mean(0).tolist()},
            weights=layers.mean(0).tolist(),
            tokens=TokenGates(self.text.symbols(best.tokens), best.gates.mean(1).tolist()),
        )


def _kept(answer: Answer, sentence: Sentence) -> Answer:
    """Return an answer with only the candidates that keep the placeholders of a sentence."""
    source = without_marks(sentence.marked.original)
    return replace(
        answer,
        candidates=tuple(
            each for each in answer.candidates if keeps(source, without_marks(each.text), sentence.dialect)
        ),
    )
