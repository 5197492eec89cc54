"""What a user wants of every line, and how the answers are written."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairseq_ext.runtime.requests import Answer, Request
from fairseq_ext.runtime.translator import SystemTranslator
from fairseq_ext.translators.lines import RoutedLine

FORMATS = ("text", "jsonl")


@dataclass(frozen=True)
class Wanted:
    """What is made of every line.

    Attributes:
        format: ``text``, the best translation; or ``jsonl``, an object with all that is known of it.
        candidates: how many translations.
        beam: width of the search; None for that of the system.
        gates: also the weights by layer.
        by_token: also the decoder's at every piece of the best translation.
    """

    format: str = "text"
    candidates: int = 1
    beam: int | None = None
    gates: bool = False
    by_token: bool = False

    def lines_of(self, translator: SystemTranslator, block: Sequence[RoutedLine], first: int, name: str) -> list[str]:
        """Translate a block, and write a line for each of its.

        Args:
            translator: of the system.
            block: lines.
            first: number of the first of them.
            name: of their file, for messages.

        Raises:
            InputError: naming the line that cannot be translated.
        """
        answers = translator.translate(
            [Request(*line) for line in block],
            beam=self.beam,
            candidates=self.candidates,
            with_gates=self.format == "jsonl",
            label=lambda index: f"{name}, line {first + index}",
        )
        for number, answer in enumerate(answers, first):
            if self.format == "text" and (lacking := [term for term, kept in answer.terms.items() if kept is None]):
                print(
                    f"{name}, line {number}: the translation lacks what is given for {', '.join(lacking)}",
                    file=sys.stderr,
                )
        return [self._line(translator.domains, answer, number) for number, answer in enumerate(answers, first)]

    def _line(self, domains: Sequence[str], answer: Answer, number: int) -> str:
        if self.format == "text":
            # No training text has line breaks, but a model of another kind may know them.
            return answer.candidates[0].text.replace("\n", " ")
        record: dict[str, Any] = {"line": number, "route": answer.route, "domain": answer.domain}
        record["candidates"] = [
            {"text": candidate.text, "score": round(candidate.score, 4)} for candidate in answer.candidates
        ]
        if answer.terms:
            record["terms"] = answer.terms
        if answer.weights is not None:
            record["weights"] = dict(zip(domains, _rounded(answer.weights), strict=True))
        if self.gates and answer.gates is not None:
            record["gates"] = {side: [_rounded(layer) for layer in layers] for side, layers in answer.gates.items()}
        if self.by_token and answer.tokens is not None:
            record["tokens"] = answer.tokens.by_domain(domains)
        return json.dumps(record, ensure_ascii=False)


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 5) for value in values]
