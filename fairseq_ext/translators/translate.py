"""Translate files in blocks, standard input as a stream, or documents.

An interrupted translation of a file continues with the next block. Unfinished work, and the record that tells files
written by this command from the user's own files, are in the user's cache::

    ~/.cache/fairseq_ext/translations/HASH/
        .out.de.step/unfinished/blocks/       input lines, after checking
        .out.de.step/unfinished/translated/   translations, one task per block
        .out.de.json                          fingerprint of the job and checksum of out.de
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tqdm import tqdm

from fairseq_ext.corpora.files import check_file
from fairseq_ext.corpora.folded_text import normal_form
from fairseq_ext.engine.hashing import hash_file
from fairseq_ext.engine.provenance import read_json_object
from fairseq_ext.engine.staging import Staging, locked
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.engine.tasks import Engine, run_tasks, task_output
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.manifest import FLOAT32, MANIFEST_FILE, Manifest, read_manifest
from fairseq_ext.runtime.requests import Request
from fairseq_ext.runtime.translator import SystemTranslator
from fairseq_ext.translators import formats
from fairseq_ext.translators.document import Document, Filling
from fairseq_ext.translators.lines import STDIN, RoutedLine, Wanted, blocks, routed_by_file, text_lines

_SOURCE, _DONE, _TEXT, _COUNTS = "blocks", "translated", "text", "counts.json"


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
    format: str | None = None  # format of the source; None to detect it
    every: bool = False

    @property
    def name(self) -> str:
        """Name of the text in messages."""
        return STDIN if self.source is None else str(self.source)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that the output lines depend on."""
        files = [self.system / MANIFEST_FILE, self.source, self.domains, self.terms]
        description = {
            "version": 6,
            "files": [path and hash_file(path) for path in files],
            "route": self.route,
            "block_lines": self.block_lines,
            "decoding_precision": self.decoding_precision,
            **dataclasses.asdict(self.wanted),
        }
        return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()

    def lines(self) -> Iterator[RoutedLine]:
        """Return the lines with their routes."""
        lines = text_lines(self.source)
        if self.domains is None:
            return ((line, self.route) for line in lines)
        return routed_by_file(lines, self.name, self.domains, read_manifest(self.system).domains)


@lru_cache(maxsize=1)
def _load_translator(job: Job) -> SystemTranslator:
    """Load the translator of a job. The last one is cached."""
    return SystemTranslator.load(
        job.system, device=job.device, decoding_precision=job.decoding_precision, terms=job.terms
    )


def translate(job: Job) -> None:
    """Translate a text with an exported system."""
    for path in (job.source, job.domains, job.terms):
        if path is not None:
            check_file(path)
    if job.output is not None and not job.output.absolute().parent.is_dir():  # a mistyped path must not create folders
        raise InputError(
            f"{job.output}: the folder {job.output.parent} does not exist; create it, or choose another name"
        )
    manifest = read_manifest(job.system)
    kind = job.format or (formats.TEXT if job.source is None else formats.format_of(job.source))
    if kind != formats.TEXT:
        _translate_document(job, kind, manifest)
    elif job.source is None or job.output is None:
        _translate_stream(job)
    else:
        paths = {name: getattr(job, name) for name in ("system", "source", "output", "domains", "terms")}
        translate_file(replace(job, **{name: path and path.absolute() for name, path in paths.items()}))


def _translate_document(job: Job, kind: str, manifest: Manifest) -> None:
    """Translate a document: its texts as a file of lines in the user's cache, then write the document with them."""
    if job.source is None or job.output is None:
        raise InputError(f"--input-format {kind}: needs files; give --input and --output")
    if job.wanted.format != "text" or job.domains is not None:
        raise InputError(f"{job.source}: --format jsonl and --domains do not apply to {kind}; remove them")
    _refuse_existing(job)
    document = Document(job.source, formats.FORMATS[kind], Filling(manifest.languages, manifest.name, job.every))
    folder = _state_of(job.output.absolute()).with_name("document")
    folder.mkdir(parents=True, exist_ok=True)
    lines, translated = folder / "lines", folder / "translated"
    with lines.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in document.texts())
    translate(replace(job, source=lines, output=translated, format=formats.TEXT))
    with atomic_write(job.output.absolute()) as partial, partial.open("wb") as out:
        filled = document.write((line.removesuffix("\n") for line in translated.open(encoding="utf-8")), out)
    shutil.rmtree(folder)
    print(f"{job.output}: {filled} segments filled", file=sys.stderr)


def _translate_stream(job: Job) -> None:
    """Translate block by block as input arrives, without intermediate files on disk."""
    translator = _load_translator(job)
    with ExitStack() as stack:
        if job.output is None:
            out = sys.stdout
            if isinstance(out, io.TextIOWrapper):  # UTF-8 regardless of the locale
                out.reconfigure(encoding="utf-8", newline="\n")
        else:
            _refuse_existing(job)
            temporary = stack.enter_context(atomic_write(job.output.absolute()))
            out = stack.enter_context(temporary.open("w", encoding="utf-8", newline="\n"))
        progress = stack.enter_context(tqdm(unit=" lines", disable=True if sys.stdout.isatty() else None))
        first = 1
        for block in blocks(job.lines(), job.block_lines):
            out.writelines(job.wanted.translated(translator, block, first, job.name))
            out.flush()
            progress.update(len(block))
            first += len(block)


def _refuse_existing(job: Job) -> None:
    if job.output is not None and job.output.is_file() and job.output.stat().st_size:
        raise InputError(f"{job.output}: already exists; move it away or choose another name")


@dataclass(frozen=True)
class _TranslateBlock:
    """Task that translates one block; paths are absolute."""

    job: Job
    blocks: Path

    def __call__(self, index: int, output: Path) -> None:
        """Write the translated lines of a block into an empty directory."""
        block = [(line, route) for line, route in json.loads((self.blocks / f"{index:06d}").read_text("utf-8"))]
        first = index * self.job.block_lines + 1
        lines = self.job.wanted.translated(_load_translator(self.job), block, first, self.job.name)
        (output / _TEXT).write_text("".join(lines), encoding="utf-8", newline="\n")


def translate_file(job: Job) -> None:
    """Translate a file, or continue an interrupted run of the same job; paths are absolute."""
    assert job.output is not None
    output, fingerprint, staging = job.output, job.fingerprint, Staging(_state_of(job.output))
    record = read_json_object(_record_of(output))
    if output.exists() and not (output.is_file() and output.stat().st_size == 0):
        if not output.is_file() or record.get("sha256") != hash_file(output):
            raise InputError(
                f"{output}: already exists and was not written by this command; move it away or choose another name"
            )
        if record.get("fingerprint") == fingerprint:
            print(f"{output}: up to date", file=sys.stderr)
            return
    staging.output.parent.mkdir(parents=True, exist_ok=True)
    with locked(staging.output):
        folder = staging.unfinished if staging.is_begun(fingerprint) else staging.start(fingerprint)
        count = _translate_blocks(job, folder, output.name)
        with atomic_write(output) as partial:
            with partial.open("wb") as file:
                for index in range(count):
                    file.write((task_output(folder / _DONE, index) / _TEXT).read_bytes())
            # The record is written before the output appears, so that the next run can repair an interruption here.
            with atomic_write(_record_of(output)) as temporary:
                known = {"fingerprint": fingerprint, "sha256": hash_file(partial)}
                temporary.write_text(json.dumps(known) + "\n", encoding="utf-8")
        staging.clear()


def _translate_blocks(job: Job, folder: Path, label: str) -> int:
    """Translate the remaining blocks, and return the total number of blocks."""
    if not (folder / _SOURCE).is_dir():
        _store(job, folder / _SOURCE)
    counts = json.loads((folder / _SOURCE / _COUNTS).read_text(encoding="utf-8"))
    done = folder / _DONE
    missing = sum(size for index, size in enumerate(counts) if not task_output(done, index).exists())
    if missing < sum(counts):
        print(f"{job.output}: continues; {missing} of {sum(counts)} lines remain", file=sys.stderr)
    task = _TranslateBlock(job, (folder / _SOURCE).absolute())
    run_tasks(task, done, len(counts), Engine(job.processes), label, sizes=counts, unit=" lines")
    return len(counts)


def _store(job: Job, folder: Path) -> None:
    """Write lines as blocks. The folder appears when all blocks are complete."""
    partial = folder.with_name(f"{folder.name}.partial")
    partial.mkdir(exist_ok=True)
    counts = []
    for index, block in enumerate(blocks(_checked(job), job.block_lines)):
        (partial / f"{index:06d}").write_text(json.dumps(block, ensure_ascii=False), encoding="utf-8")
        counts.append(len(block))
    (partial / _COUNTS).write_text(json.dumps(counts), encoding="utf-8")
    partial.rename(folder)


def _checked(job: Job) -> Iterator[RoutedLine]:
    """Yield the lines, and raise an error for any that cannot be translated before translation starts."""
    for number, (line, route) in enumerate(job.lines(), start=1):
        if "domain" in (text := normal_form("NFKC", line)) and ":" in text:
            _load_translator(job).check(Request(line, route), f"{job.name}, line {number}")
        yield line, route


def _state_of(output: Path) -> Path:
    """Return the path of an output's state in the user's cache; the last component is the output's name."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(str(output.parent.resolve() / output.name).encode("utf-8", "surrogateescape")).hexdigest()
    return cache / "fairseq_ext/translations" / key[:32] / output.name


def _record_of(output: Path) -> Path:
    state = _state_of(output)
    return state.with_name(f".{state.name}.json")
