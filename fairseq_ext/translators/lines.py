"""Lines of a user's text, each with the route that it is to take, and what is written of their translations."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ext.corpora.text_files import stdin_lines, stream_lines
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.requests import Answer, Request

if TYPE_CHECKING:
    from fairseq_ext.runtime.translator import SystemTranslator

FORMATS = ("text", "jsonl")
STDIN = "standard input"
# A text and its route; None for the system's own.
RoutedLine = tuple[str, str | None]


def text_lines(path: Path | None) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file, or of standard input; they end at ``\n`` and nowhere else."""
    lines = stdin_lines() if path is None else stream_lines(path, may_be_blank=True)
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise InputError(f"{path or STDIN}, line {number}: holds a null byte, as no text does; take it out")
        yield line


def routed_by_file(lines: Iterable[str], name: str, path: Path, domains: Sequence[str]) -> Iterator[RoutedLine]:
    """Each line by the domain that a file names in its place.

    A line of the file may be empty where the text's is.
    """
    for number, (line, domain) in enumerate(zip_longest(lines, text_lines(path)), start=1):
        if line is None or domain is None:
            short, long = (name, path) if line is None else (path, name)
            raise InputError(f"{long}, line {number}: has no counterpart in {short}, which ends before; give one each")
        domain = domain.strip()
        if domain not in domains and (domain or line.strip()):
            raise InputError(f"{path}, line {number}: unknown domain {domain!r}; there are {', '.join(domains)}")
        yield line, domain or None


def blocks(lines: Iterable[RoutedLine], size: int) -> Iterator[list[RoutedLine]]:
    """Yield lines in lists of ``size``; the last may be shorter."""
    lines = iter(lines)
    while block := list(islice(lines, size)):
        yield block


@dataclass(frozen=True)
class Wanted:
    """What is made of every line."""

    format: str = "text"  # the best translation; or jsonl, an object with all that is known of it
    candidates: int = 1
    beam: int | None = None  # None for that of the system
    gates: bool = False  # also the weights by layer
    by_token: bool = False  # also the decoder's at every piece of the best translation

    def translated(
        self, translator: SystemTranslator, block: Sequence[RoutedLine], first: int, name: str
    ) -> Iterator[str]:
        """Translate a block, and yield a line, with its end, for each; ``first`` is the number of its first line."""
        answers = translator.translate(
            [Request(*line) for line in block],
            beam=self.beam,
            candidates=self.candidates,
            with_gates=self.format == "jsonl",
            label=lambda index: f"{name}, line {first + index}",
        )
        for number, answer in enumerate(answers, first):
            if self.format == "jsonl":
                yield json.dumps(self._record(translator.domains, answer, number), ensure_ascii=False) + "\n"
                continue
            if lacking := [term for term, kept in answer.terms.items() if kept is None]:
                words = f"the translation lacks what is given for {', '.join(lacking)}"
                print(f"{name}, line {number}: {words}", file=sys.stderr)
            # No training text has line breaks, but a model of another kind may know them.
            yield answer.candidates[0].text.replace("\n", " ") + "\n"

    def _record(self, domains: Sequence[str], answer: Answer, number: int) -> dict[str, Any]:
        record: dict[str, Any] = {"line": number, "route": answer.route, "domain": answer.domain}
        record["candidates"] = [{"text": each.text, "score": round(each.score, 4)} for each in answer.candidates]
        if answer.terms:
            record["terms"] = answer.terms
        if answer.weights is not None:
            record["weights"] = dict(zip(domains, _rounded(answer.weights), strict=True))
        if self.gates and answer.gates is not None:
            record["gates"] = {side: [_rounded(layer) for layer in layers] for side, layers in answer.gates.items()}
        if self.by_token and answer.tokens is not None:
            record["tokens"] = answer.tokens.by_domain(domains)
        return record


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 5) for value in values]
