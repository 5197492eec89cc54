"""A user's text, translated line for line: from a file in blocks, or as it comes."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from tqdm import tqdm

from fairseq_ext.corpora.files import check_file
from fairseq_ext.corpora.folded_text import normal_form
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.manifest import FLOAT32, Manifest, read_manifest
from fairseq_ext.runtime.requests import Request
from fairseq_ext.runtime.sentences import TooLongError
from fairseq_ext.runtime.translator import SystemTranslator
from fairseq_ext.translators import formats
from fairseq_ext.translators.answers import Wanted
from fairseq_ext.translators.document import Document, Filling
from fairseq_ext.translators.files import FileJob, check_folder, load_translator, state_of, translate_file
from fairseq_ext.translators.lines import STDIN, RoutedLine, blocks, routed_by_file, text_lines

# Only of longer lines it is asked, before any is translated, whether the model takes them.
_LONG_LINE = 1000


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
        device: cpu or cuda.
        decoding_precision: of weights and products.
        format: of the source, of :data:`fairseq_ext.translators.formats.FORMATS` or text; None for what its name says.
        every: whether what a document has translated already is translated again.
        terms: file of terms, or None.
    """

    source: Path | None = None
    output: Path | None = None
    route: str | None = None
    domains: Path | None = None
    wanted: Wanted = Wanted()
    processes: int = 0
    block_lines: int = 500
    device: str = "cpu"
    decoding_precision: str = FLOAT32
    format: str | None = None
    every: bool = False
    terms: Path | None = None


def translate_text(system: Path, text: Text) -> None:
    """Translate a text with an exported system.

    Raises:
        InputError: naming the file or line that cannot be used.
    """
    for path in (text.source, text.domains, text.terms):
        if path is not None:
            check_file(path)
    manifest = read_manifest(system)
    kind = text.format or (formats.TEXT if text.source is None else formats.format_of(text.source))
    if kind != formats.TEXT:
        _translate_document(system, manifest, text, kind)
        return
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
        terms=text.terms and text.terms.absolute(),
    )

    def lines(left_out: list[int]) -> Iterator[RoutedLine]:
        return _checked(_lines(text, manifest), str(source), lambda: load_translator(job), left_out)

    _tell(str(text.source), translate_file(job, lines, text.processes))


def _translate_document(system: Path, manifest: Manifest, text: Text, kind: str) -> None:
    """Translate the texts of a document as a file of lines in the user's cache, and write the document with them."""
    if text.source is None or text.output is None:
        raise InputError(f"--input-format {kind}: give --input and --output, files both")
    if text.wanted.format != "text" or text.domains is not None:
        raise InputError(f"{text.source}: --format jsonl and --domains are for lines of text, not for {kind}")
    check_folder(text.output)
    _refuse_file(text.output)
    filling = Filling(manifest.languages, manifest.name, text.every)
    document = Document(text.source, formats.FORMATS[kind], filling)
    folder = state_of(text.output.absolute()).with_name("document")
    folder.mkdir(parents=True, exist_ok=True)
    lines, translated = folder / "lines", folder / "translated"
    with lines.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in document.texts())
    translate_text(system, replace(text, source=lines, output=translated, format=formats.TEXT))
    with atomic_write(text.output.absolute()) as partial, partial.open("wb") as out:
        filled, stayed = document.write((line.removesuffix("\n") for line in translated.open(encoding="utf-8")), out)
    shutil.rmtree(folder)
    print(f"{text.output}: {filled} filled; {stayed} that are too long stay as they are", file=sys.stderr)


def _tell(name: str, left_out: Sequence[int]) -> None:
    if left_out:
        numbers = ", ".join(map(str, left_out))
        print(f"{name}: lines left empty, for they have a sentence that is too long: {numbers}", file=sys.stderr)


def _translate_stream(system: Path, manifest: Manifest, text: Text) -> None:
    """Translate block by block as text comes, and leave nothing on the disk but the output."""
    name = str(text.source or STDIN)
    if text.output is not None:
        check_folder(text.output)
    translator = SystemTranslator.load(
        system, device=text.device, decoding_precision=text.decoding_precision, terms=text.terms
    )
    first = 1
    left_out: list[int] = []
    lines = _checked(_lines(text, manifest), name, lambda: translator, left_out)
    with ExitStack() as stack:
        if text.output is None:
            out: IO[str] = stack.enter_context(_utf8(sys.stdout))
        else:
            _refuse_file(text.output)
            temporary = stack.enter_context(atomic_write(text.output.absolute()))
            out = stack.enter_context(temporary.open("w", encoding="utf-8", newline="\n"))
        progress = stack.enter_context(tqdm(unit=" lines", disable=None if not sys.stdout.isatty() else True))
        for block in blocks(lines, text.block_lines):
            for line in text.wanted.lines_of(translator, block, first, name):
                print(line, file=out)
            out.flush()
            first += len(block)
            progress.update(len(block))
    _tell(name, left_out)


def _lines(text: Text, manifest: Manifest) -> Iterator[RoutedLine]:
    name = str(text.source or STDIN)
    lines = text_lines(text.source)
    if text.domains is not None:
        return routed_by_file(lines, name, text.domains, manifest.domains)
    return ((line, text.route) for line in lines)


def _checked(
    lines: Iterable[RoutedLine], name: str, translator: Callable[[], SystemTranslator], left_out: list[int]
) -> Iterator[RoutedLine]:
    """Pass lines on, those with too long a sentence as empty ones, whose numbers are noted; refuse what else cannot
    be translated, before hours of work on the others."""
    for number, (line, route) in enumerate(lines, start=1):
        if len(line) > _LONG_LINE or ("domain" in (text := normal_form("NFKC", line)) and ":" in text):
            try:
                translator().check(Request(line, route), f"{name}, line {number}")
            except TooLongError:
                left_out.append(number)
                line = ""
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
