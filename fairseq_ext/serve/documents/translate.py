"""Translate files of lines and documents in blocks, and standard input as a stream.

Translated blocks are kept beside the output until it is complete, so that the same command continues an interrupted
translation: ``.out.de.HASH/blocks`` has lists of input texts, ``.out.de.HASH/translated`` their translations.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO

from tqdm import tqdm

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import hash_file
from fairseq_ext.base.jobs import Engine, job_output, run_jobs
from fairseq_ext.base.steps import atomic_write, check_replaceable
from fairseq_ext.serve.documents import formats
from fairseq_ext.serve.documents.document import Document, Filling
from fairseq_ext.serve.documents.lines import STDIN, Line, Wanted, blocks, routed_by_file, text_lines
from fairseq_ext.serve.runtime.manifest import FLOAT32, MANIFEST_FILE, read_manifest
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.shortlist import SYSTEM
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.text.files import check_file
from fairseq_ext.text.folded_text import normal_form

_SOURCE, _DONE, _TEXT = "blocks", "translated", "texts.json"


@dataclass(frozen=True)
class Job:
    """A text to translate and the options of ``fairseq-ext translate``, where they are documented."""

    system: Path
    source: Path | None = None  # None for standard input
    output: Path | None = None  # None for standard output
    route: str | None = None  # route of all lines; None for the system's default, or if ``domains`` is given
    domains: Path | None = None
    terms: Path | None = None
    wanted: Wanted = Wanted()
    processes: int = 0
    block_lines: int = 500
    device: str = "cpu"
    decoding_precision: str = FLOAT32
    shortlist: str = SYSTEM
    format: str | None = None  # format of the source; None to detect it
    every: bool = False

    @property
    def name(self) -> str:
        """Beginning of messages about a text, before its number."""
        return f"{self.source or STDIN}, {'line' if self.format in (None, formats.TEXT) else 'text'}"

    def document(self) -> Document | None:
        """Return the document to fill, or None for lines of text."""
        if self.source is None or self.format in (None, formats.TEXT):
            return None
        manifest = read_manifest(self.system)
        filling = Filling(manifest.languages, manifest.name, self.every, self.wanted.dialect)
        return Document(self.source, formats.FORMATS[self.format], filling)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that the output depends on."""
        files = [self.system / MANIFEST_FILE, self.source, self.domains, self.terms]
        description = {
            "version": 7,
            "files": [path and hash_file(path) for path in files],
            "route": self.route,
            "block_lines": self.block_lines,
            "decoding_precision": self.decoding_precision,
            "shortlist": self.shortlist,
            "document": [self.format, self.every],
            **dataclasses.asdict(self.wanted),
        }
        return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()

    def lines(self) -> Iterator[Line]:
        """Return the texts with their routes."""
        if document := self.document():
            return (Line(text, self.route, dialect) for text, dialect in document.texts())
        lines = text_lines(self.source)
        if self.domains is None:
            return (Line(line, self.route) for line in lines)
        return routed_by_file(lines, str(self.source or STDIN), self.domains, read_manifest(self.system).domains)


@lru_cache(maxsize=1)
def _load_translator(job: Job) -> SystemTranslator:
    """Load the translator of a job. The last one is cached."""
    return SystemTranslator.load(
        job.system,
        device=job.device,
        decoding_precision=job.decoding_precision,
        terms=job.terms,
        shortlist=job.shortlist,
    )


def translate(job: Job) -> None:
    """Translate a text with an exported system."""
    for path in (job.source, job.domains, job.terms):
        if path is not None:
            check_file(path)
    if job.output is not None:
        check_replaceable(job.output)
        if not job.output.absolute().parent.is_dir():  # a mistyped path must not create folders
            raise InputError(
                f"{job.output}: the folder {job.output.parent} does not exist; create it, or choose another name"
            )
    if job.source is not None and job.output is not None and job.output.resolve() == job.source.resolve():
        raise InputError(f"{job.output}: is the text to translate; choose another name")
    kind = job.format or (formats.TEXT if job.source is None else formats.format_of(job.source))
    if kind != formats.TEXT and (job.source is None or job.output is None):
        raise InputError(f"--input-format {kind}: needs files; give --input and --output")
    if kind != formats.TEXT and (job.wanted.format != "text" or job.domains is not None):
        raise InputError(f"{job.source}: --format jsonl and --domains do not apply to {kind}; remove them")
    if job.source is None or job.output is None:
        _translate_stream(job)
    else:
        paths = {name: getattr(job, name) for name in ("system", "source", "output", "domains", "terms")}
        translate_file(replace(job, format=kind, **{name: path and path.absolute() for name, path in paths.items()}))


def _translate_stream(job: Job) -> None:
    """Translate block by block as input arrives, without intermediate files on disk."""
    translator = _load_translator(job)
    with ExitStack() as stack:
        if job.output is None:
            out = sys.stdout
            if isinstance(out, io.TextIOWrapper):  # UTF-8 regardless of the locale
                out.reconfigure(encoding="utf-8", newline="\n")
        else:
            temporary = stack.enter_context(atomic_write(job.output.absolute()))
            out = stack.enter_context(temporary.open("w", encoding="utf-8", newline="\n"))
        progress = stack.enter_context(tqdm(unit=" lines", disable=True if sys.stdout.isatty() else None))
        first = 1
        for block in blocks(job.lines(), job.block_lines):
            out.writelines(map(_line, job.wanted.translated(translator, block, first, job.name)))
            out.flush()
            progress.update(len(block))
            first += len(block)


def _line(text: str) -> str:
    """Return an output line. Training text has no line breaks, but a model's vocabulary may contain them."""
    return text.replace("\n", " ") + "\n"


@dataclass(frozen=True)
class _TranslateBlock:
    """Task that translates one block; paths are absolute."""

    job: Job
    blocks: Path

    def __call__(self, index: int, output: Path) -> None:
        """Write the translations of a block into an empty directory."""
        block = [Line(*each) for each in json.loads((self.blocks / f"{index:06d}").read_text("utf-8"))]
        first = index * self.job.block_lines + 1
        texts = list(self.job.wanted.translated(_load_translator(self.job), block, first, self.job.name))
        (output / _TEXT).write_text(json.dumps(texts), encoding="utf-8")


def translate_file(job: Job) -> None:
    """Translate a file, or continue an interrupted run of the same job; paths are absolute."""
    assert job.output is not None
    folder = job.output.with_name(f".{job.output.name}.{job.fingerprint[:16]}")
    count = _translate_blocks(job, folder)
    with atomic_write(job.output) as partial, partial.open("wb") as file:
        _write(job, _translations(folder / _DONE, count), file)
    shutil.rmtree(folder)


def _translations(folder: Path, count: int) -> Iterator[str]:
    for index in range(count):
        yield from json.loads((job_output(folder, index) / _TEXT).read_text(encoding="utf-8"))


def _write(job: Job, translations: Iterator[str], file: IO[bytes]) -> None:
    if document := job.document():
        document.write(translations, file)
        print(f"{job.output}: {document.filled} segments filled", file=sys.stderr)
    else:
        file.writelines(_line(text).encode("utf-8") for text in translations)


def _translate_blocks(job: Job, folder: Path) -> int:
    """Translate the remaining blocks, and return the total number of blocks."""
    source, done = folder / _SOURCE, folder / _DONE
    source.mkdir(parents=True, exist_ok=True)
    sizes = []
    try:
        for index, block in enumerate(blocks(_checked_lines(job), job.block_lines)):
            with atomic_write(source / f"{index:06d}") as partial:
                partial.write_text(json.dumps(block, ensure_ascii=False), encoding="utf-8")
            sizes.append(len(block))
    except InputError:
        shutil.rmtree(folder)
        raise
    missing = sum(size for index, size in enumerate(sizes) if not job_output(done, index).exists())
    if missing < sum(sizes):
        print(f"{job.output}: continues; {missing} of {sum(sizes)} lines remain", file=sys.stderr)
    label = job.output.name if job.output else ""
    run_jobs(_TranslateBlock(job, source), done, len(sizes), Engine(job.processes), label, sizes, unit=" lines")
    return len(sizes)


def _checked_lines(job: Job) -> Iterator[Line]:
    """Yield the lines of a job, or raise an error for one that cannot be translated."""
    for number, line in enumerate(job.lines(), start=1):
        if "domain" in (text := normal_form("NFKC", line.text)) and ":" in text:
            _load_translator(job).check(Request(line.text, line.route), f"{job.name} {number}")
        yield line
