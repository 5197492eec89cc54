"""Input lines with their routes, and output records of their translations."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.requests import UNTRANSLATED, WEIGHTS, Request
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.text.placeholders import ANY
from fairseq_ext.text.text_files import stdin_lines, stream_lines

FORMATS = ("text", "jsonl")
STDIN = "standard input"
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")  # line breaks for many programs, but not for JSON


class Line(NamedTuple):
    """A text to translate."""

    text: str
    route: str | None = None  # None for the system's default route
    dialect: str | None = None  # dialect of placeholders; None for the one that is wanted


def text_lines(path: Path | None) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file, or of standard input. Only ``\n`` ends a line."""
    lines = stdin_lines() if path is None else stream_lines(path, may_be_blank=True)
    for number, line in enumerate(lines, start=1):
        if "\0" in line:
            raise InputError(f"{path or STDIN}, line {number}: contains a null byte; remove it")
        yield line


def routed_by_file(lines: Iterable[str], name: str, path: Path, domains: Sequence[str]) -> Iterator[Line]:
    """Yield each line with its domain, read from the same line of a file of domains.

    The domain may be empty if the line is blank.
    """
    for number, (line, domain) in enumerate(zip_longest(lines, text_lines(path)), start=1):
        if line is None or domain is None:
            short, long = (name, path) if line is None else (path, name)
            raise InputError(
                f"{long}, line {number}: has no matching line in {short}, which is shorter; "
                "give both the same number of lines"
            )
        domain = domain.strip()
        if domain not in domains and (domain or line.strip()):
            raise InputError(f"{path}, line {number}: unknown domain {domain!r}; choose one of {', '.join(domains)}")
        yield Line(line, domain or None)


def blocks(lines: Iterable[Line], size: int) -> Iterator[list[Line]]:
    """Yield lists of ``size`` lines; the last list may be shorter."""
    lines = iter(lines)
    while block := list(islice(lines, size)):
        yield block


@dataclass(frozen=True)
class Wanted:
    """Output options."""

    format: str = "text"  # text: the best translation; jsonl: a JSON object with all results
    candidates: int = 1
    beam: int | None = None  # None for the system's beam size
    gates: str = WEIGHTS  # detail of the weights of gates
    dialect: str = ANY  # dialect of placeholders

    def translated(self, translator: SystemTranslator, block: Sequence[Line], first: int, name: str) -> Iterator[str]:
        """Translate a block, and yield one output per input.

        Args:
            first: number of the block's first text.
            name: beginning of messages about a text, before its number.
        """
        answers = translator.translate(
            [Request(line.text, line.route, dialect=line.dialect or self.dialect) for line in block],
            beam=self.beam,
            candidates=self.candidates,
            with_gates=self.format == "jsonl",
            label=lambda index: f"{name} {first + index}",
        )
        for number, (_, answer) in enumerate(zip(block, answers, strict=True), first):
            if self.format == "jsonl":
                weights = answer.gate_record(translator.domains, self.gates)
                known = {key: value for key, value in weights.items() if value is not None}
                record = json.dumps({"line": number, **answer.record(), **known}, ensure_ascii=False)
                yield _LINE_ENDS.sub(lambda end: f"\\u{ord(end[0]):04x}", record)
                continue
            if lacking := [term for term, kept in answer.terms.items() if kept is None]:
                words = f"the translation does not contain the required translation of {', '.join(lacking)}"
                print(f"{name} {number}: {words}", file=sys.stderr)
            if UNTRANSLATED in answer.notes:
                words = "stays untranslated, since no translation keeps its placeholders"
                print(f"{name} {number}: {words}", file=sys.stderr)
            yield answer.candidates[0].text
