"""Requests to a translator, and its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairseq_ext.runtime.terms import Glossary


@dataclass(frozen=True)
class Request:
    """A text to translate.

    Attributes:
        text: raw text, neither normalised nor tokenised. It may contain marks of tags and placeholders, see
            :mod:`fairseq_ext.runtime.pieces`.
        route: ``gates``, ``classifier``, ``base`` (no adapters) or a domain; None for the system's default route.
        prefix: text with which the translation begins. If the text is split into sentences, it applies to each.
        terms: terms with required translations, in addition to those of the translator. They override terms with the
            same source.
    """

    text: str
    route: str | None = None
    prefix: str = ""
    terms: Glossary | None = None


@dataclass(frozen=True)
class Candidate:
    """A translation.

    Attributes:
        text: detokenised text.
        score: mean log2 probability per token with the length penalty, as fairseq prints it.
    """

    text: str
    score: float


@dataclass(frozen=True)
class TokenGates:
    """Weights of the decoder's gates at each subword of a translation, including the end of the sentence.

    Attributes:
        pieces: T subwords, as written in the vocabulary.
        weights: gate weights, T×D, averaged over layers; rows sum to one.
    """

    pieces: list[str]
    weights: list[list[float]]

    def by_domain(self, domains: Sequence[str]) -> dict[str, Any]:
        """Return ``pieces`` and, for each domain, its ``weights`` at these subwords, for JSON."""
        columns = zip(*self.weights, strict=True)
        weights = {name: [round(weight, 4) for weight in column] for name, column in zip(domains, columns, strict=True)}
        return {"pieces": self.pieces, "weights": weights}


@dataclass(frozen=True)
class Answer:
    """Translations of a request.

    If the text was split into sentences, scores and weights are means over the sentences, and ``tokens`` lists the
    sentences one after another.

    Attributes:
        candidates: translations, best first.
        route: the route used.
        domain: the domain requested or predicted by the classifier; None for ``gates`` and ``base``.
        gates: gate weights of ``encoder`` and ``decoder``, L×D each; rows sum to one. None if not requested, or if the
            route is not ``gates``.
        weights: adapter weights, D, averaged over layers. None if not requested, or if the system has no adapters.
        tokens: gate weights at each subword of the best translation; None in the same cases as ``gates``.
        terms: by source term, the translation of it that the best candidate contains; None if it contains none of
            the required ones.
    """

    candidates: tuple[Candidate, ...]
    route: str
    domain: str | None
    gates: dict[str, list[list[float]]] | None = None
    weights: list[float] | None = None
    tokens: TokenGates | None = None
    terms: Mapping[str, str | None] = field(default_factory=dict)


def join_answers(answers: Sequence[Answer]) -> Answer:
    """Join the answers to the parts of a text: best translations with best, second with second; see :class:`Answer`.

    The classifier may predict a different domain for each part. The joined answer has the domain of the first.
    """
    first = answers[0]
    if len(answers) == 1:
        return first
    ranks = zip(*(answer.candidates for answer in answers), strict=False)
    candidates = tuple(
        Candidate(" ".join(each.text for each in rank), sum(each.score for each in rank) / len(rank)) for rank in ranks
    )
    terms = {term: kept for answer in answers for term, kept in answer.terms.items()}
    joined = replace(first, candidates=candidates, terms=terms)
    if weights := [answer.weights for answer in answers if answer.weights is not None]:
        joined = replace(joined, weights=_mean(weights))
    if gates := [answer.gates for answer in answers if answer.gates is not None]:
        layers = {side: zip(*(own[side] for own in gates), strict=True) for side in gates[0]}
        joined = replace(joined, gates={side: [_mean(rows) for rows in own] for side, own in layers.items()})
    if tokens := [answer.tokens for answer in answers if answer.tokens is not None]:
        pieces = [piece for own in tokens for piece in own.pieces]
        joined = replace(joined, tokens=TokenGates(pieces, [row for own in tokens for row in own.weights]))
    return joined


def _mean(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]
