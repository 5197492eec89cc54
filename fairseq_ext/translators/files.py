"""Translating a file in blocks: what is interrupted goes on with the next block, whoever translates it.

What is unfinished, and what tells a file that this command wrote from one of the user's, is in the user's cache::

    ~/.cache/fairseq_ext/translations/HASH/
        .out.de.step/unfinished/blocks/       the lines, as they were read and checked
        .out.de.step/unfinished/translated/   a task a block
        .out.de.json                          what out.de was made from
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fairseq_ext.engine.hashing import hash_file
from fairseq_ext.engine.provenance import read_json_object
from fairseq_ext.engine.staging import Staging, locked
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.engine.tasks import Engine, run_tasks, task_output
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.manifest import FLOAT32, MANIFEST_FILE
from fairseq_ext.runtime.translator import SystemTranslator
from fairseq_ext.translators.answers import Wanted
from fairseq_ext.translators.lines import RoutedLine, blocks

_SOURCE, _DONE, _TEXT, _COUNTS = "blocks", "translated", "text", "counts.json"


@dataclass(frozen=True)
class FileJob:
    """A file to translate.

    Attributes:
        system: directory of the exported system.
        source: file of the text, one sentence a line.
        domains: file of a domain for each line, or None.
        route: of all lines; None for the system's own, or where there is a file of domains.
        wanted: what is made of each.
        output: file to write.
        block_lines: lines in a block.
        device: cpu or cuda.
        decoding_precision: of weights and products.
        terms: file of terms, or None.
    """

    system: Path
    source: Path
    domains: Path | None
    route: str | None
    wanted: Wanted
    output: Path
    block_lines: int
    device: str = "cpu"
    decoding_precision: str = FLOAT32
    terms: Path | None = None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that the output depends on."""
        files = [self.system / MANIFEST_FILE, self.source, self.domains, self.terms]
        description = {
            "version": 4,
            "files": [path and hash_file(path) for path in files],
            "route": self.route,
            "block_lines": self.block_lines,
            "decoding_precision": self.decoding_precision,
            **dataclasses.asdict(self.wanted),
        }
        return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class TranslateBlock:
    """The task that translates one block; paths are absolute."""

    job: FileJob
    blocks: Path

    def __call__(self, index: int, output: Path) -> None:
        """Write its lines into an empty directory."""
        text = (self.blocks / f"{index:06d}").read_text(encoding="utf-8")
        block: list[RoutedLine] = [(line, route) for line, route in json.loads(text)]
        translator = load_translator(self.job)
        first = index * self.job.block_lines + 1
        lines = self.job.wanted.lines_of(translator, block, first, str(self.job.source))
        (output / _TEXT).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


@lru_cache(maxsize=1)
def load_translator(job: FileJob) -> SystemTranslator:
    """The translator of a job, loaded once."""
    return SystemTranslator.load(
        job.system, device=job.device, decoding_precision=job.decoding_precision, terms=job.terms
    )


# Reads the lines of a job, and notes the numbers of those that cannot be translated, which it leaves empty.
ReadLines = Callable[[list[int]], Iterable[RoutedLine]]


def translate_file(job: FileJob, lines: ReadLines, processes: int) -> list[int]:
    """Translate a file, or what an interrupted run of the same job left of it.

    Args:
        job: with absolute paths.
        lines: reads the lines and checks them.
        processes: that translate; 0 for one a core. They change nothing in the output.

    Returns:
        The numbers of the lines that were left empty; none if the output is up to date.

    Raises:
        InputError: if a line cannot be translated, or the output is another file of the user's.
    """
    check_folder(job.output)
    fingerprint, output, staging = job.fingerprint, job.output, Staging(state_of(job.output))
    record = _record_of(output)
    is_made = record.get("fingerprint") == fingerprint and output.is_file() and record["sha256"] == hash_file(output)
    if is_made and not staging.exists():
        print(f"{output}: up to date", file=sys.stderr)
        return []
    staging.output.parent.mkdir(parents=True, exist_ok=True)
    with locked(staging.output):
        begun = staging.is_begun(fingerprint)
        if not begun:
            _refuse_others(output)
        folder = staging.unfinished if begun else staging.start(fingerprint)
        left_out = _translate(job, folder, lines, processes)
        _finish(folder / _TEXT, output, fingerprint)
        staging.clear()
    return left_out


def check_folder(output: Path) -> None:
    """Check that the folder of an output is there.

    Raises:
        InputError: if it is not; a wrong name shall not make folders.
    """
    if not output.absolute().parent.is_dir():
        raise InputError(f"{output}: there is no folder {output.parent}; make it, or choose another name")


def _translate(job: FileJob, folder: Path, lines: ReadLines, processes: int) -> list[int]:
    if not (folder / _SOURCE).is_dir():
        _store(lines, folder / _SOURCE, job.block_lines)
    counts, left_out = json.loads((folder / _SOURCE / _COUNTS).read_text(encoding="utf-8"))
    if (folder / _TEXT).is_file():
        return left_out
    start, done = time.monotonic(), folder / _DONE
    missing = sum(size for index, size in enumerate(counts) if not task_output(done, index).exists())
    if missing < sum(counts):
        print(f"{job.output}: goes on; {missing} of {sum(counts)} lines are left", file=sys.stderr)
    task = TranslateBlock(job, (folder / _SOURCE).absolute())
    run_tasks(task, done, len(counts), Engine(processes), job.output.name, sizes=counts, unit=" lines")
    seconds = time.monotonic() - start
    print(f"{job.output}: {missing} lines in {seconds:.1f} s, {missing / seconds:.1f} a second", file=sys.stderr)
    partial = folder / f"{_TEXT}.partial"
    with partial.open("wb") as file:
        for index in range(len(counts)):
            file.write((task_output(done, index) / _TEXT).read_bytes())
    partial.rename(folder / _TEXT)
    return left_out


def _store(lines: ReadLines, folder: Path, size: int) -> None:
    """Write lines as blocks; the folder appears when all are there."""
    partial = folder.with_name(f"{folder.name}.partial")
    partial.mkdir(exist_ok=True)
    counts: list[int] = []
    left_out: list[int] = []
    for index, block in enumerate(blocks(lines(left_out), size)):
        (partial / f"{index:06d}").write_text(json.dumps(block, ensure_ascii=False), encoding="utf-8")
        counts.append(len(block))
    (partial / _COUNTS).write_text(json.dumps([counts, left_out]), encoding="utf-8")
    partial.rename(folder)


def _finish(text: Path, output: Path, fingerprint: str) -> None:
    """Put the text where it belongs; its record, which comes first, knows the file that is replaced, too."""
    _refuse_others(output)
    record = {"fingerprint": fingerprint, "sha256": hash_file(text)}
    if output.is_file():
        record["replaced"] = hash_file(output)
    with atomic_write(_record_path(output)) as partial:
        partial.write_text(json.dumps(record) + "\n", encoding="utf-8")
    with atomic_write(output) as partial:
        shutil.copyfile(text, partial)


def state_of(output: Path) -> Path:
    """Where the state of an output is in the user's cache, under its own name."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(str(output.parent.resolve() / output.name).encode("utf-8", "surrogateescape")).hexdigest()
    return cache / "fairseq_ext/translations" / key[:32] / output.name


def _record_path(output: Path) -> Path:
    state = state_of(output)
    return state.with_name(f".{state.name}.json")


def _record_of(output: Path) -> dict[str, Any]:
    return read_json_object(_record_path(output))


def _is_own(output: Path) -> bool:
    record = _record_of(output)
    return output.is_file() and hash_file(output) in (record.get("sha256"), record.get("replaced"))


def _refuse_others(output: Path) -> None:
    """Refuse to replace a file that this command did not write, or that was edited since."""
    if not output.exists() or (output.is_file() and not output.stat().st_size):
        return
    if not _is_own(output):
        raise InputError(f"{output}: exists, and is not as this command wrote it; move it away or choose another name")
