"""A user's text, translated line for line: from a file in blocks, or as it comes."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tqdm import tqdm

from fairseq_ext.corpora.files import check_file
from fairseq_ext.corpora.folded_text import normal_form
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.translators.answers import PRECISIONS, Wanted, load_quietly
from fairseq_ext.translators.exported import Manifest, read_manifest
from fairseq_ext.translators.files import FileJob, translate_file
from fairseq_ext.translators.lines import RoutedLine, blocks, file_lines, routed_by_file, stream_lines
from fairseq_ext.translators.requests import Request

# Only of longer lines it is asked, before any is translated, whether the model takes them.
_LONG_LINE = 1000
_STANDARD_INPUT = "standard input"


@dataclass(frozen=True)
class Text:
    """A text to translate, and how.

    Attributes:
        source: file, one sentence a line; None for standard input.
        output: file to write; None for standard output.
        route: of all lines; None for the system's own, or where there is a file of domains.
        domains: file of a domain for each line, or None.
        wanted: what is made of each line.
        processes: that translate a file; 0 for one a core.
        block_lines: lines of a block.
        device: torch's.
        decoding_precision: of weights and products.
    """

    source: Path | None = None
    output: Path | None = None
    route: str | None = None
    domains: Path | None = None
    wanted: Wanted = Wanted()
    processes: int = 0
    block_lines: int = 500
    device: str = "cpu"
    decoding_precision: str = PRECISIONS[0]


def translate_text(system: Path, text: Text) -> None:
    """Translate a text with an exported system.

    Raises:
        InputError: naming the file or line that cannot be used.
    """
    for path in (text.source, text.domains):
        if path is not None:
            check_file(path)
    manifest = read_manifest(system)
    if text.source is None or text.output is None:
        _translate_stream(system, manifest, text)
        return
    output, source = text.output.absolute(), text.source.absolute()
    if output == source:
        raise InputError(f"--output {text.output}: is the input; choose another name")
    job = FileJob(
        system=system.absolute(),
        source=source,
        domains=text.domains and text.domains.absolute(),
        route=text.route,
        wanted=text.wanted,
        output=output,
        block_lines=text.block_lines,
        device=text.device,
        decoding_precision=text.decoding_precision,
    )
    translate_file(job, lambda: _checked(_lines(text, manifest), job), text.processes)


def _translate_stream(system: Path, manifest: Manifest, text: Text) -> None:
    """Translate block by block as text comes, and leave nothing on the disk but the output."""
    name = str(text.source or _STANDARD_INPUT)
    translator = load_quietly(system, text.device, text.decoding_precision)
    first = 1
    with ExitStack() as stack:
        if text.output is None:
            out: IO[str] = stack.enter_context(_utf8(sys.stdout))
        else:
            _refuse_file(text.output)
            temporary = stack.enter_context(atomic_write(text.output.absolute()))
            out = stack.enter_context(temporary.open("w", encoding="utf-8", newline="\n"))
        progress = stack.enter_context(tqdm(unit=" lines", disable=None if not sys.stdout.isatty() else True))
        for block in blocks(_lines(text, manifest), text.block_lines):
            for line in text.wanted.lines_of(translator, block, first, name):
                print(line, file=out)
            out.flush()
            first += len(block)
            progress.update(len(block))


def _lines(text: Text, manifest: Manifest) -> Iterator[RoutedLine]:
    name = str(text.source or _STANDARD_INPUT)
    lines = file_lines(text.source) if text.source else stream_lines(sys.stdin.buffer, name)
    if text.domains is not None:
        return routed_by_file(lines, name, text.domains, manifest.domains)
    return ((line, text.route) for line in lines)


def _checked(lines: Iterable[RoutedLine], job: FileJob) -> Iterator[RoutedLine]:
    """Pass lines on, but refuse those that could not be translated, before hours of work on the others."""
    translator = None
    for number, (line, route) in enumerate(lines, start=1):
        if len(line) > _LONG_LINE or ("domain" in (text := normal_form("NFKC", line)) and ":" in text):
            translator = translator or load_quietly(job.system, job.device, job.decoding_precision)
            translator.check(Request(line, route), f"{job.source}, line {number}")
        yield line, route


def _refuse_file(output: Path) -> None:
    if output.is_file() and output.stat().st_size:
        raise InputError(f"{output}: exists; move it away or choose another name")


@contextmanager
def _utf8(stream: IO[str]) -> Iterator[IO[str]]:
    """A standard stream that writes UTF-8 and line feeds, whatever the locale says."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", newline="\n")
    yield stream
