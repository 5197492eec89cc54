"""What a user wants of every line, and how the answers are written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ext.engine.fairseq_cli import quieten_fairseq
from fairseq_ext.translators.lines import RoutedLine
from fairseq_ext.translators.requests import Answer, Request

if TYPE_CHECKING:
    from fairseq_ext.translators.translator import SystemTranslator

FORMATS = ("text", "jsonl")
PRECISIONS = ("float32", "bfloat16", "int8")  # of decoding


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
        return [self._line(translator.domains, answer, number) for number, answer in enumerate(answers, first)]

    def _line(self, domains: Sequence[str], answer: Answer, number: int) -> str:
        if self.format == "text":
            # No training text has line breaks, but a model of another kind may know them.
            return answer.candidates[0].text.replace("\n", " ")
        record: dict[str, Any] = {"line": number, "route": answer.route, "domain": answer.domain}
        record["candidates"] = [
            {"text": candidate.text, "score": round(candidate.score, 4)} for candidate in answer.candidates
        ]
        if answer.weights is not None:
            record["weights"] = dict(zip(domains, _rounded(answer.weights), strict=True))
        if self.gates and answer.gates is not None:
            record["gates"] = {side: [_rounded(layer) for layer in layers] for side, layers in answer.gates.items()}
        if self.by_token and answer.tokens is not None:
            record["tokens"] = answer.tokens.by_domain(domains)
        return json.dumps(record, ensure_ascii=False)


def load_quietly(directory: Path, device: str, decoding_precision: str = PRECISIONS[0]) -> SystemTranslator:
    """A translator for a command line: of one thread, so that it finds the same on all machines of a kind."""
    quieten_fairseq()
    import torch

    from fairseq_ext.translators.translator import SystemTranslator

    torch.set_num_threads(1)
    return SystemTranslator.load(directory, device=device, decoding_precision=decoding_precision)


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 5) for value in values]
