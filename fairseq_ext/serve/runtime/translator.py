"""Translate text with an exported system. Each request has its own route."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.classifiers.classifier import load_classifier
from fairseq_ext.serve.runtime.manifest import (
    CLASSIFIER_FOLDER,
    FLOAT32,
    GATES,
    PRECISIONS,
    Manifest,
    verify,
)
from fairseq_ext.serve.runtime.model import Model
from fairseq_ext.serve.runtime.next_tokens import Options
from fairseq_ext.serve.runtime.pieces import MARK, between_marks, without_marks
from fairseq_ext.serve.runtime.reading import Question, Reader, Routes
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
from fairseq_ext.serve.runtime.shortlist import NONE, SYSTEM, Shortlist, read_shortlist
from fairseq_ext.serve.runtime.terms import Glossary
from fairseq_ext.serve.runtime.vocabulary import REMEDY, Text
from fairseq_ext.text.placeholders import keeps

_MOST_CANDIDATES = 100


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
        self.manifest, self.model, self.text = manifest, model, text
        self.options = Options(**manifest.generation)
        self.routing = Routes(manifest.name, manifest.domains, model, text.vocabulary.has_tags, classifier)
        self.reader = Reader(manifest, text, self.routing)
        self._searches = Searches(model, text, manifest.domains, threads, shortlist)

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
        """Load an exported system. The checksums of the files that are read are verified first.

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
        check_choice(decoding_precision, PRECISIONS, "decoding_precision")
        manifest = verify(directory, decoding_precision)
        text = Text.read(directory, manifest.languages[1], manifest.domains)
        classifier = None
        if manifest.classifier is not None:
            classifier = load_classifier(directory / CLASSIFIER_FOLDER, manifest.classifier)
        check_choice(shortlist, (SYSTEM, NONE), "shortlist")
        lexicons = read_shortlist(directory, text.vocabulary) if shortlist == SYSTEM else None
        model = Model(directory, decoding_precision, device)
        model.tables.check(len(text.vocabulary.source), len(text.vocabulary.target))
        if model.num_adapters not in (0, len(manifest.domains)):
            raise InputError(f"{directory}: has {model.num_adapters} adapters for {len(manifest.domains)} domains")
        translator = cls(manifest, model, text, classifier, threads, lexicons)
        translator._try(directory)
        translator.reader.terms = translator.reader.spelled(Glossary.read(terms) if terms else None)
        return translator

    def _try(self, directory: Path) -> None:
        """Translate two words by each kind of route, so that files that do not fit each other are found at once."""
        options = self.options
        self.options = replace(options, beam=min(options.beam, 2), max_len_a=0, max_len_b=2, min_len=1)
        try:
            others = {*self.domains[1:]}  # computed from the same matrices as the first
            self.translate([Request("a b", route) for route in self.routes if route not in others])
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
        return self.routing.names

    @property
    def default_route(self) -> str | None:
        """Route of requests that name none; None if every request has to name one. See :class:`Routes`."""
        return self.routing.default

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
        parts = [(index, part) for index, (texts, _) in enumerate(divided) for part in texts]
        questions = self.reader.read([part for _, part in parts], lambda place: label(parts[place][0]))
        answers = iter(self._answers(questions, options, candidates, with_gates=with_gates))
        return [join_answers(list(islice(answers, len(texts))), join) for texts, join in divided]

    def check(self, request: Request, label: str = "request") -> None:
        """Check that a request can be translated, and raise :class:`InputError` otherwise."""
        self.reader.read(request.divided()[0], lambda _: label)

    def count_pieces(self, text: str) -> int:
        """Return the approximate length of a text in subwords, including the end of the sentence."""
        return self.text.count(text)

    def extra_work(self, request: Request) -> int:
        """Return what a part of a text adds to the work of its search: subwords of required terms, and marks."""
        return self.reader.extra_work(request)

    def _answers(
        self, questions: Sequence[Question], options: Options, candidates: int, *, with_gates: bool
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
        self, question: Question, sentence: Sentence, answers: Callable[[Sequence[Question]], list[Answer]]
    ) -> Answer:
        """Translate the words between the marks of a sentence. Where that does not help, it stays as it is."""
        original = sentence.marked.original
        pieces, answer = between_marks(original), Answer((), question.route, question.domain)
        if pieces.texts and pieces.texts != [original]:
            parts = [self.reader.part_of(question, text) for text in pieces.texts]
            joined = join_answers(answers(parts), pieces.join)
            answer = _kept(replace(joined, notes=(*joined.notes, IN_PARTS)), sentence)
        if not answer.candidates:
            text = MARK.sub(lambda mark: mark[1] or mark[0], original)
            notes = (UNTRANSLATED,) if any(map(str.isalpha, text)) else ()
            answer = replace(answer, candidates=(Candidate(text, 0.0),), notes=notes)
        return replace(answer, placeholders=sentence.marked.placeholders)

    def _answer(
        self,
        question: Question,
        sentence: Sentence,
        found: Found,
        texts: Sequence[str],
        fault: str | None,
        with_gates: bool,
    ) -> Answer:
        """Return the answer to a sentence, with the candidates that keep its placeholders."""
        # fairseq prints logarithms to base 2.
        candidates = tuple(
            Candidate(text, hypothesis.score / math.log(2))
            for text, hypothesis in zip(texts, found.hypotheses, strict=False)
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
