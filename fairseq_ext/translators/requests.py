"""What a translator is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """A sentence to translate.

    Attributes:
        text: as its user wrote it.
        route: ``gates``, ``classifier``, ``base`` (no adapters) or a domain; None for the system's own way.
    """

    text: str
    route: str | None = None


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
    """

    candidates: tuple[Candidate, ...]
    route: str
    domain: str | None
    gates: dict[str, list[list[float]]] | None = None
    weights: list[float] | None = None
    tokens: TokenGates | None = None
