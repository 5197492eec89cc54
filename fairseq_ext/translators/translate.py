"""A user's text, translated line for line: from a file in blocks, or as it comes; or a document."""

from __future__ import annotations

import io
import shutil
import sys
from contextlib import ExitStack
from dataclasses import replace

from tqdm import tqdm

from fairseq_ext.corpora.files import check_file
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.manifest import Manifest, read_manifest
from fairseq_ext.translators import formats
from fairseq_ext.translators.document import Document, Filling
from fairseq_ext.translators.files import Job, load_translator, state_of, translate_file
from fairseq_ext.translators.lines import blocks


def translate(job: Job) -> None:
    """Translate a text with an exported system."""
    for path in (job.source, job.domains, job.terms):
        if path is not None:
            check_file(path)
    if job.output is not None and not job.output.absolute().parent.is_dir():  # a wrong name shall not make folders
        raise InputError(f"{job.output}: there is no folder {job.output.parent}; make it, or choose another name")
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
    """Translate the texts of a document as a file of lines in the user's cache, and write the document with them."""
    if job.source is None or job.output is None:
        raise InputError(f"--input-format {kind}: give --input and --output, files both")
    if job.wanted.format != "text" or job.domains is not None:
        raise InputError(f"{job.source}: --format jsonl and --domains are for lines of text, not for {kind}")
    _refuse_existing(job)
    document = Document(job.source, formats.FORMATS[kind], Filling(manifest.languages, manifest.name, job.every))
    folder = state_of(job.output.absolute()).with_name("document")
    folder.mkdir(parents=True, exist_ok=True)
    lines, translated = folder / "lines", folder / "translated"
    with lines.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in document.texts())
    translate(replace(job, source=lines, output=translated, format=formats.TEXT))
    with atomic_write(job.output.absolute()) as partial, partial.open("wb") as out:
        filled = document.write((line.removesuffix("\n") for line in translated.open(encoding="utf-8")), out)
    shutil.rmtree(folder)
    print(f"{job.output}: {filled} filled", file=sys.stderr)


def _translate_stream(job: Job) -> None:
    """Translate block by block as text comes, and leave nothing on the disk but the output."""
    translator = load_translator(job)
    with ExitStack() as stack:
        if job.output is None:
            out = sys.stdout
            if isinstance(out, io.TextIOWrapper):  # whatever the locale says
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
        raise InputError(f"{job.output}: exists; move it away or choose another name")
