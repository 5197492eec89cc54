"""From requests to sentences for the model: normalised text, its route and domain, and constraints on translations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairseq_ext.base.errors import InputError, naming
from fairseq_ext.serve.runtime.manifest import BASE, CLASSIFIER, GATES, Manifest
from fairseq_ext.serve.runtime.model import Model
from fairseq_ext.serve.runtime.pieces import MARK, keep, stow, without_marks
from fairseq_ext.serve.runtime.placing import LONGEST_KEPT, Marked
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.searches import Sentence
from fairseq_ext.serve.runtime.sentences import cut
from fairseq_ext.serve.runtime.tags import cut as split_at
from fairseq_ext.serve.runtime.terms import Constraint, Glossary, Term
from fairseq_ext.serve.runtime.vocabulary import Text
from fairseq_ext.text.languages import has_spaces
from fairseq_ext.text.normalise import normalise_lines
from fairseq_ext.text.raw_text import canonical

# A word, or a symbol with its modifiers, such as an emoji of several characters. In CJK scripts, a character.
_UNIT = re.compile(
    "[\u2e80-\ufaff]|[^\\W\u2e80-\ufaff][\\w\u0300-\u036f]*"
    "|[^\\w\\s](?:[\ufe0f\u20e3\U0001f3fb-\U0001f3ff]|\u200d[^\\w\\s]?)*"
)
_PLACEHOLDER_WORK = 16  # subwords that take as long as a placeholder, which has to be kept
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])’(?=[^\W\d_])")


class Routes:
    """The routes of an exported system, and the domains to which they lead.

    Args:
        name: name of the system, for messages.
        domains: in the order of the weights.
        has_tags: whether the model reads domain tags; there is then no route without a domain.
        classifier: predicts the domains of texts; None if the system has none.

    Attributes:
        names: routes that a request may name.
        default: route of requests that name none: ``gates`` if available, else ``classifier``. A system that does not
            use domains has ``base``. None if every request has to name a route.
    """

    default: str | None

    def __init__(self, name: str, domains: Sequence[str], model: Model, has_tags: bool, classifier: Any) -> None:
        self._name, self._domains, self._has_tags, self.classifier = name, list(domains), has_tags, classifier
        takes_domains = model.num_adapters > 0 or has_tags
        choosing = [GATES] if model.has_gates else []
        if classifier is not None and takes_domains:
            choosing.append(CLASSIFIER)
        self.names = [*choosing, *([] if has_tags else [BASE]), *(self._domains if takes_domains else [])]
        self.default = next(iter(choosing), None if takes_domains else BASE)

    def choose(self, asked: str | None, label: str) -> str:
        """Return the route that a request names, or the default one."""
        route = asked or self.default
        if route is None:
            raise InputError(f"{label}: {self._name} needs a route; choose one of {', '.join(self.names)}")
        if route not in self.names:
            raise InputError(f"{label}: {self._name} has no route {route!r}; choose one of {', '.join(self.names)}")
        return route

    def domains(self, texts: Sequence[str], routes: Sequence[str]) -> list[str | None]:
        """Return the domain of each text, or None where the route has none."""
        domains: list[str | None] = [route if route in self._domains else None for route in routes]
        unknown = [index for index, route in enumerate(routes) if route == CLASSIFIER and texts[index]]
        if unknown:
            probs = self.classifier.predict([texts[index] for index in unknown])
            # One column more than domains is the class base, which has no adapter; a system with tags has no base.
            best = (probs[:, : len(self._domains)] if self._has_tags else probs).argmax(axis=1)
            for index, number in zip(unknown, best.tolist(), strict=True):
                domains[index] = self._domains[number] if number < len(self._domains) else None
        return domains


@dataclass(frozen=True)
class Question:
    """A request after reading: its text, route, domain, and the sentences to translate."""

    text: str
    route: str
    domain: str | None
    request: Request
    glossaries: Sequence[Glossary]
    sentences: list[Sentence] = field(default_factory=list)


class Reader:
    """Reads requests to an exported system.

    Attributes:
        terms: terms with required translations in all requests.
    """

    def __init__(self, manifest: Manifest, text: Text, routes: Routes) -> None:
        self._manifest, self._text, self._routes = manifest, text, routes
        self.terms = Glossary()

    def normalise(self, texts: Sequence[str], side: int = 0) -> list[str]:
        """Normalise texts of a side (0: source, 1: target) as the training data was normalised."""
        lines = [canonical(text, Counter()) for text in texts]
        options = self._manifest.text
        return lines if options is None else normalise_lines(lines, self._manifest.languages[side], options)

    def spelled(self, terms: Glossary | None) -> Glossary:
        """Return a glossary with all terms and targets normalised."""
        return Glossary(
            Term(source, tuple(self.normalise(term.targets, 1)))
            for term in terms or ()
            for source in self.normalise([term.source])
        )

    def extra_work(self, request: Request) -> int:
        """Return the number of subwords of required terms, and the work of marks, in a part of a text."""
        targets = [
            term.targets
            for glossary in (self.terms, request.terms)
            for term in (glossary.found_in(without_marks(request.text)) if glossary else ())
        ]
        terms = sum(max(map(self._text.count, forms)) for forms in targets)
        marks = sum(_PLACEHOLDER_WORK if mark[1] else 1 for mark in MARK.finditer(request.text))
        return terms + marks

    def read(self, requests: Sequence[Request], label: Callable[[int], str]) -> list[Question]:
        """Read requests; ``label`` returns the name of a request in error messages, given its index."""
        stowed = [stow(request.text) for request in requests]
        normal = self.normalise([text for text, _ in stowed])
        texts = [text.translate(held) for text, (_, held) in zip(normal, stowed, strict=True)]
        routes = [self._routes.choose(request.route, label(index)) for index, request in enumerate(requests)]
        domains = self._routes.domains([without_marks(text) for text in texts], routes)
        glossaries = {id(request.terms): request.terms for request in requests}  # requests may share one
        spelled = {key: self.spelled(terms) for key, terms in glossaries.items()}
        questions = []
        for index, (request, text, route, domain) in enumerate(zip(requests, texts, routes, domains, strict=True)):
            question = Question(text, route, domain, request, (self.terms, spelled[id(request.terms)]))
            with naming(label(index)):
                question.sentences.extend(self._sentence(question, part) for part in self._parts(text, domain))
            questions.append(question)
        return questions

    def part_of(self, question: Question, text: str) -> Question:
        """Return the question for a part of a text, with the same route and domain."""
        return replace(question, text=text, sentences=[self._sentence(question, self._marked(text))])

    def _parts(self, text: str, domain: str | None) -> Iterator[Marked]:
        """Yield a text, in parts if it is too long for the model. Empty text yields nothing."""
        if not without_marks(text).strip():
            return
        room = self._text.vocabulary.longest_source - len(self._text.encode("", domain))
        for part, _ in cut(text, room, lambda part: len(self._text.pieces(self._marked(part).text))):
            yield self._marked(part)

    def _marked(self, text: str) -> Marked:
        """Read a text with marks. Symbols and words that the model does not know are kept like placeholders."""
        parts = [_UNIT.sub(self._kept_if_unknown, part) if is_text else part for part, is_text in split_at(MARK, text)]
        text = "".join(parts)
        return Marked.read(text, lambda placeholder: 0 < len(self._text.encode_exactly(placeholder)) <= LONGEST_KEPT)

    def _kept_if_unknown(self, unit: re.Match[str]) -> str:
        is_plain = unit[0].isascii() and unit[0].isalnum()  # its letters may be known in other words
        if is_plain or not self._text.is_unknown(unit[0]):
            return unit[0]
        return "'" if _APOSTROPHE.match(unit.string, unit.start()) else keep(unit[0])

    def _sentence(self, question: Question, marked: Marked) -> Sentence:
        prefix = [*self._text.vocabulary.prefix, *self._text.encode_prefix(question.request.prefix)]
        tokens = self._text.encode(marked.text, question.domain)
        constraints = self._constraints(marked, question.glossaries)
        is_forced = question.route != GATES
        return Sentence(marked, tokens, prefix, question.domain, is_forced, *constraints, question.request.dialect)

    def _constraints(
        self, marked: Marked, glossaries: Sequence[Glossary]
    ) -> tuple[dict[str, Constraint], list[Constraint]]:
        """Return the constraints on a translation: those of terms, by source term, and those of placeholders."""
        encode, is_spaced = self._text.encode_exactly, has_spaces(self._manifest.languages[1])
        terms = {term.source: term.targets for glossary in glossaries for term in glossary.found_in(marked.words)}
        return (
            {term: Constraint.of(forms, encode, has_spaces=is_spaced) for term, forms in terms.items()},
            [Constraint.exactly(each, count, encode(each)) for each, count in marked.kept.items()],
        )
