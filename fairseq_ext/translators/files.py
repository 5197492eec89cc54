"""Translating a file in blocks: what is interrupted goes on with the next block, whoever translates it.

::

    .out.de.step/unfinished/blocks/       the lines, as they were read and checked
    .out.de.step/unfinished/translated/   a task a block
    .out.de.json                          what out.de was made from, so that it is known again
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ext.engine.hashing import hash_file
from fairseq_ext.engine.staging import Staging, locked
from fairseq_ext.engine.tasks import Engine, run_tasks, task_output
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.translators.answers import PRECISIONS, Wanted, load_quietly
from fairseq_ext.translators.exported import MANIFEST_FILE
from fairseq_ext.translators.lines import RoutedLine, blocks

if TYPE_CHECKING:
    from fairseq_ext.translators.translator import SystemTranslator

_SOURCE, _DONE, _TEXT, _RECORD, _COUNTS = "blocks", "translated", "text", "record.json", "counts.json"


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
        device: torch's.
        decoding_precision: of weights and products.
    """

    system: Path
    source: Path
    domains: Path | None
    route: str | None
    wanted: Wanted
    output: Path
    block_lines: int
    device: str = "cpu"
    decoding_precision: str = PRECISIONS[0]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that the output depends on."""
        files = [self.system / MANIFEST_FILE, self.source, *([self.domains] if self.domains else [])]
        description = {
            "version": 2,
            "files": [hash_file(path) for path in files],
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
        translator = _translator(self.job.system, self.job.device, self.job.decoding_precision)
        first = index * self.job.block_lines + 1
        lines = self.job.wanted.lines_of(translator, block, first, str(self.job.source))
        (output / _TEXT).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


@lru_cache(maxsize=1)
def _translator(system: Path, device: str, decoding_precision: str) -> SystemTranslator:
    return load_quietly(system, device, decoding_precision)


def translate_file(job: FileJob, lines: Callable[[], Iterable[RoutedLine]], processes: int) -> None:
    """Translate a file, or what an interrupted run of the same job left of it.

    Args:
        job: with absolute paths.
        lines: reads the lines and checks them.
        processes: that translate; 0 for one a core. They change nothing in the output.

    Raises:
        InputError: if a line cannot be translated, or the output is another file of the user's.
    """
    fingerprint, output, staging = job.fingerprint, job.output, Staging(job.output)
    if output.is_file() and _record_of(output) == _record(fingerprint, output) and not staging.exists():
        print(f"{output}: up to date", file=sys.stderr)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    with locked(output):
        begun = staging.is_begun(fingerprint)
        if not begun:
            _refuse_others(output)
        folder = staging.unfinished if begun else staging.start(fingerprint)
        if not any((folder / name).is_file() for name in (_TEXT, _RECORD)):
            _translate(job, folder, lines, processes)
        _finish(folder, output, fingerprint)
        staging.clear()


def _translate(job: FileJob, folder: Path, lines: Callable[[], Iterable[RoutedLine]], processes: int) -> None:
    if not (folder / _SOURCE).is_dir():
        _store(lines(), folder / _SOURCE, job.block_lines)
    counts = json.loads((folder / _SOURCE / _COUNTS).read_text(encoding="utf-8"))
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


def _store(lines: Iterable[RoutedLine], folder: Path, size: int) -> None:
    """Write lines as blocks; the folder appears when all are there."""
    partial = folder.with_name(f"{folder.name}.partial")
    partial.mkdir(exist_ok=True)
    counts = []
    for index, block in enumerate(blocks(lines, size)):
        (partial / f"{index:06d}").write_text(json.dumps(block, ensure_ascii=False), encoding="utf-8")
        counts.append(len(block))
    (partial / _COUNTS).write_text(json.dumps(counts), encoding="utf-8")
    partial.rename(folder)


def _finish(folder: Path, output: Path, fingerprint: str) -> None:
    """Put the text where it belongs, and its record beside it; a kill in between leaves the rest to the next run."""
    text, record = folder / _TEXT, folder / _RECORD
    if not record.is_file():
        partial = folder / f"{_RECORD}.partial"
        partial.write_text(json.dumps(_record(fingerprint, text)) + "\n", encoding="utf-8")
        partial.rename(record)
    if text.is_file():
        _refuse_others(output)
        os.replace(text, output)
    os.replace(record, _record_path(output))


def _record_path(output: Path) -> Path:
    return output.with_name(f".{output.name}.json")


def _record(fingerprint: str, text: Path) -> dict[str, str]:
    return {"fingerprint": fingerprint, "sha256": hash_file(text)}


def _record_of(output: Path) -> Any:
    try:
        return json.loads(_record_path(output).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _refuse_others(output: Path) -> None:
    """Refuse to replace a file that this command did not write, or that was edited since."""
    if not output.exists() or (output.is_file() and not output.stat().st_size):
        return
    record = _record_of(output)
    is_own = output.is_file() and isinstance(record, dict) and record.get("sha256") == hash_file(output)
    if not is_own:
        raise InputError(f"{output}: exists, and is not as this command wrote it; move it away or choose another name")
