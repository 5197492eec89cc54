"""What a translator is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairseq_ext.runtime.terms import Glossary


@dataclass(frozen=True)
class Request:
    """A sentence to translate.

    Attributes:
        text: as its user wrote it.
        route: ``gates``, ``classifier``, ``base`` (no adapters) or a domain; None for the system's own way.
        prefix: with what the translation begins; of a text that is cut into sentences, each does.
        terms: whose translation is given, beside those of the translator; they come before these.
    """

    text: str
    route: str | None = None
    prefix: str = ""
    terms: Glossary | None = None


@dataclass(frozen=True)
class Candidate:
    """A translation.

    Attributes:
        text: detokenised.
        score: mean logarithm, to base 2, of a token's probability, with the length penalty, as fairseq prints it.
    """

    text: str
    score: float


@dataclass(frozen=True)
class TokenGates:
    """What the decoder's gates chose at each piece of a translation, its end included.

    Attributes:
        pieces: T subwords, as the vocabulary has them.
        weights: T×D, averaged over layers; rows sum to one.
    """

    pieces: list[str]
    weights: list[list[float]]

    def by_domain(self, domains: Sequence[str]) -> dict[str, Any]:
        """``pieces``, and of every domain its ``weights`` at these; for JSON."""
        columns = zip(*self.weights, strict=True)
        weights = {name: [round(weight, 4) for weight in column] for name, column in zip(domains, columns, strict=True)}
        return {"pieces": self.pieces, "weights": weights}


@dataclass(frozen=True)
class Answer:
    """The translations of a request. Of a text that was cut into sentences, all figures are means over these,
    but for ``tokens``, which has one sentence after the other.

    Attributes:
        candidates: best first.
        route: as it was taken.
        domain: that was asked for or that the classifier found; None for gates and base.
        gates: of ``encoder`` and ``decoder`` L×D, rows sum to one; None where no gates decided, or nobody asked.
        weights: D, those of the adapters, averaged over layers; None for a system without adapters, or if nobody asked.
        tokens: of the best translation, piece by piece; None as ``gates``.
        terms: by term of the source what the best translation has for it; None where it lacks all that was given.
    """

    candidates: tuple[Candidate, ...]
    route: str
    domain: str | None
    gates: dict[str, list[list[float]]] | None = None
    weights: list[float] | None = None
    tokens: TokenGates | None = None
    terms: Mapping[str, str | None] = field(default_factory=dict)


def join_answers(answers: Sequence[Answer]) -> Answer:
    """The answer to a text of those to its parts: the best of all, the second of all, and so on; see :class:`Answer`.

    The classifier may have found another domain for each part; that of the first is told.
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
