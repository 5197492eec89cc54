"""Requests to a translator, and its answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairseq_ext.base.domain_names import with_base
from fairseq_ext.serve.runtime.pieces import PRIVATE, split
from fairseq_ext.serve.runtime.tags import HTML, PLAIN
from fairseq_ext.serve.runtime.terms import Glossary
from fairseq_ext.text.placeholders import ANY, NONE

_DIGITS = 4  # of weights in JSON
# Details of gates in JSON, each with those before it: weights of the text, by layer, and at each subword.
WEIGHTS, LAYERS, TOKENS = DETAILS = ("weights", "layers", "tokens")
# Notes of answers.
IN_PARTS, UNTRANSLATED, REPETITION, LENGTH = "parts", "untranslated", "repetition", "length"


@dataclass(frozen=True)
class Request:
    """A text to translate.

    Attributes:
        text: raw text, neither normalised nor tokenised, or a text with marks of tags and placeholders from
            :mod:`fairseq_ext.serve.runtime.pieces`.
        route: ``gates``, ``classifier``, ``base`` (no adapters) or a domain; None for the system's default route.
        prefix: text with which the translation begins. If the text is split into sentences, it applies to each.
        terms: terms with required translations, in addition to those of the translator. They override terms with the
            same source.
        dialect: dialect of placeholders, one of :data:`fairseq_ext.text.placeholders.DIALECTS`. The translation has
            the placeholders of the text, and no others. ``none``: the text has neither placeholders nor tags.
        markup: whether the text is HTML or XML, where ``&`` is written as ``&amp;``.
    """

    text: str
    route: str | None = None
    prefix: str = ""
    terms: Glossary | None = None
    dialect: str = ANY
    markup: bool = False

    def divided(self) -> tuple[list[Request], Callable[[list[str]], str]]:
        """Return requests for the parts of a raw text that are translated alone, and a function that joins the results.

        A text without words has one part, which is empty.
        """
        if self.dialect == NONE or re.search(PRIVATE, self.text):
            return [self], "".join
        pieces = split(self.text, HTML if self.markup else PLAIN, self.dialect)
        parts = [replace(self, text=text, markup=False) for text in pieces.texts or [""]]
        return parts, pieces.join if pieces.texts else lambda _: self.text


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
        weights: gate weights, T×D, averaged over layers; rows sum to one, or to less if the base has a share.
    """

    pieces: list[str]
    weights: list[list[float]]

    def record(self, domains: Sequence[str]) -> dict[str, Any]:
        """Return ``pieces`` and, for each domain, its ``weights`` at these subwords, for JSON."""
        rows = [with_base(dict(zip(domains, row, strict=True))) for row in self.weights]
        names = max(rows, key=len, default={})  # with the base if it has a share of any subword
        weights = {name: [round(row.get(name, 0.0), _DIGITS) for row in rows] for name in names}
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
        placeholders: the placeholders of the text, all of which each candidate contains.
        notes: reasons to review the translation: ``parts`` (the text between placeholders was translated in parts),
            ``untranslated`` (a part of the text was left as it is, since no translation kept its placeholders),
            ``repetition`` and ``length`` (the model repeated itself, or wrote far too much, and was asked again).
    """

    candidates: tuple[Candidate, ...]
    route: str
    domain: str | None
    gates: dict[str, list[list[float]]] | None = None
    weights: list[float] | None = None
    tokens: TokenGates | None = None
    terms: Mapping[str, str | None] = field(default_factory=dict)
    placeholders: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return all but the weights, for JSON; without terms, placeholders and notes that are empty."""
        candidates = [{"text": each.text, "score": round(each.score, 4)} for each in self.candidates]
        more = {key: value for key in ("terms", "placeholders", "notes") if (value := getattr(self, key))}
        return {"route": self.route, "domain": self.domain, "candidates": candidates, **more}

    def gate_record(self, domains: Sequence[str], detail: str) -> dict[str, Any]:
        """Return the weights by domain in a detail, one of :data:`DETAILS`, for JSON; None for those not known."""
        record: dict[str, Any] = {"weights": self.weights and _shares(domains, self.weights)}
        if detail != WEIGHTS:
            sides = (self.gates or {}).items()
            record["gates"] = {side: [_shares(domains, layer) for layer in layers] for side, layers in sides} or None
        if detail == TOKENS:
            record["tokens"] = self.tokens and self.tokens.record(domains)
        return record


def join_answers(answers: Sequence[Answer], join: Callable[[list[str]], str] = " ".join) -> Answer:
    """Join the answers to the parts of a text: best translations with best, second with second; see :class:`Answer`.

    The classifier may predict a different domain for each part. The joined answer has the domain of the first.

    Args:
        join: function that returns the whole translation, given those of the parts.
    """
    ranks = zip(*(answer.candidates for answer in answers), strict=False)
    candidates = tuple(
        Candidate(join([each.text for each in rank]), sum(each.score for each in rank) / len(rank)) for rank in ranks
    )
    joined = replace(
        answers[0],
        candidates=candidates,
        terms={term: kept for answer in answers for term, kept in answer.terms.items()},
        placeholders=tuple(each for answer in answers for each in answer.placeholders),
        notes=tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
    )
    if len(answers) == 1:
        return joined
    if weights := [answer.weights for answer in answers if answer.weights is not None]:
        joined = replace(joined, weights=_mean(weights))
    if gates := [answer.gates for answer in answers if answer.gates is not None]:
        layers = {side: zip(*(own[side] for own in gates), strict=True) for side in gates[0]}
        joined = replace(joined, gates={side: [_mean(rows) for rows in own] for side, own in layers.items()})
    if tokens := [answer.tokens for answer in answers if answer.tokens is not None]:
        pieces = [piece for own in tokens for piece in own.pieces]
        joined = replace(joined, tokens=TokenGates(pieces, [row for own in tokens for row in own.weights]))
    return joined


def _shares(domains: Sequence[str], weights: Sequence[float]) -> dict[str, float]:
    shares = with_base(dict(zip(domains, weights, strict=True)))
    return {name: round(share, _DIGITS) for name, share in shares.items()}


def _mean(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]
