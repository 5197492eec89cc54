"""Steps: directories that are either finished or absent, and are built again only when they must be.

A step builds one directory from inputs and options. It works in ``NAME.partial``, writes the
fingerprint of all it depends on into ``step.json`` as the last file, and is then renamed to ``NAME``.
So a directory under its own name is complete, however the machine went down, and running the same
command again does only what is missing.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.engine.processes import this_process
from fairseq_ext.errors import InputError

RECORD = "step.json"
_RESUME_RECORD = "unfinished-step.json"
_CHUNK_BYTES = 1 << 20
# A full or read-only disk, missing rights, a file where a directory should be: no traceback helps there.
_NOT_OUR_FAULT = {
    getattr(errno, name)
    for name in ["ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM", "EIO", "EEXIST", "ENOTDIR"]
}
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Step:
    """One directory, what it is made from, and how.

    Args:
        output: directory to build; its name is the step's name in messages.
        inputs: files and directories whose *contents* the result depends on, in a fixed order.
        options: everything else the result depends on, as JSON can hold it. The program's own code is
            not compared: give a version here and raise it when ``build`` comes to work differently.
        build: fills the (existing) directory that it is given.
        resumable: ``build`` continues from what an interrupted run with the same fingerprint left.
        join: what further processes of the same command (see :mod:`fairseq_ext.engine.processes`) do in the
            directory while the first one builds it; None lets them wait. Only for resumable steps.
    """

    output: Path
    inputs: Sequence[Path]
    options: Mapping[str, Any]
    build: Callable[[Path], None] = field(compare=False)
    resumable: bool = False
    join: Callable[[Path], None] | None = field(default=None, compare=False)


def run_step(
    output: Path,
    *,
    inputs: Sequence[Path],
    options: Mapping[str, Any],
    build: Callable[[Path], None],
    resumable: bool = False,
) -> bool:
    """Build the directory ``output`` unless it is finished already; see :class:`Step`.

    Returns:
        True if ``build`` ran, False if the directory was up to date.

    Raises:
        InputError: if an input is missing, another process builds the same directory, or ``output``
            holds files that no step made (they are never deleted).
    """
    fingerprint = step_fingerprint(output, inputs, options)
    # Without the lock first: any number of processes may use a finished directory at once.
    if is_finished(output, fingerprint) and not _sibling(output, "old").exists():
        _log(output, "up to date")
        return False
    output.parent.mkdir(parents=True, exist_ok=True)
    with _lock(output):
        _remove(_sibling(output, "old"))
        if is_finished(output, fingerprint):
            _log(output, "up to date")
            return False
        _refuse_foreign_directory(output)
        partial = _start_partial(output, fingerprint, resumable)
        _log(output, "started")
        start = time.monotonic()
        build(partial)
        _write_record(partial, fingerprint)
        (partial / _RESUME_RECORD).unlink()
        _swap(partial, output)
        _log(output, f"done in {time.monotonic() - start:.1f} s")
    return True


def run_steps(steps: Sequence[Step], *, dry_run: bool = False) -> None:
    """Run the steps in order, or with ``dry_run`` only print what each of them would do (stdout).

    Of several processes that run the same command, the first builds the steps and the others follow.
    """
    processes = this_process()
    if dry_run:
        if processes.is_first:
            print_plan(steps)
        return
    try:
        for step in steps:
            if not processes.is_first:
                follow_step(step)
                continue
            run_step(step.output, inputs=step.inputs, options=step.options, build=step.build, resumable=step.resumable)
    except OSError as error:
        if error.errno not in _NOT_OUR_FAULT:
            raise
        raise InputError(f"{step.output.name}: {error}; mend that and run the same command again") from None
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        raise SystemExit(130) from None


def follow_step(step: Step) -> None:
    """Join in a step that another process of the same command builds, and return when it is finished."""
    fingerprint = step_fingerprint(step.output, step.inputs, step.options)
    partial = _sibling(step.output, "partial")
    while not is_finished(step.output, fingerprint):
        if step.join is not None and _is_begun(partial, fingerprint):
            step.join(partial)
            break
        time.sleep(_POLL_SECONDS)
    while not is_finished(step.output, fingerprint):
        time.sleep(_POLL_SECONDS)


def print_plan(steps: Sequence[Step]) -> None:
    """Print one line a step: its directory, and whether it is finished or would be built."""
    to_build: set[Path] = set()
    for step in steps:
        # A step after one that will change cannot be judged before that one has run.
        waits = any(to_build & {path, *path.parents} for path in step.inputs)
        if waits or not is_finished(step.output, step_fingerprint(step.output, step.inputs, step.options)):
            to_build.add(step.output)
        print(f"{'build' if step.output in to_build else 'up to date':<12}{step.output}")


def step_fingerprint(output: Path, inputs: Sequence[Path], options: Mapping[str, Any]) -> str:
    """SHA-256 over the options and the contents of the inputs; where these lie does not matter.

    Raises:
        InputError: naming the first input that does not exist.
    """
    for path in inputs:
        if not path.exists():
            raise InputError(f"{output.name}: its input {path} does not exist; make it first")
    description = {"options": dict(options), "inputs": [hash_path(path) for path in inputs]}
    text = json.dumps(description, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_path(path: Path) -> str:
    """SHA-256 of a file's bytes, or of a directory's relative names and bytes without its record."""
    if path.is_file():
        return _hash_file(path)
    digest = hashlib.sha256()
    for name in sorted(_relative_files(path)):
        digest.update(f"{name}\0{_hash_file(path / name)}\n".encode())
    return digest.hexdigest()


def is_finished(output: Path, fingerprint: str) -> bool:
    """Whether the directory was completed with this fingerprint and all its files are still there."""
    try:
        record = json.loads((output / RECORD).read_text(encoding="utf-8"))
        if record["fingerprint"] != fingerprint:
            return False
        return all((output / name).stat().st_size == size for name, size in record["outputs"].items())
    except (OSError, ValueError, KeyError):
        return False


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path`` that becomes ``path`` if the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays last because some writers (numpy, matplotlib) choose the format by it.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _relative_files(directory: Path) -> list[str]:
    files = (path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    return [name for name in files if name not in (RECORD, _RESUME_RECORD)]


def _write_record(directory: Path, fingerprint: str) -> None:
    sizes = {name: (directory / name).stat().st_size for name in sorted(_relative_files(directory))}
    record = {"fingerprint": fingerprint, "outputs": sizes}
    with atomic_write(directory / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _start_partial(output: Path, fingerprint: str, resumable: bool) -> Path:
    """Return the directory to build in: empty, or what an interrupted run of the same step left."""
    partial = _sibling(output, "partial")
    if resumable and _is_begun(partial, fingerprint):
        _log(output, "continuing an interrupted run")
        return partial
    _remove(partial)
    partial.mkdir()
    with atomic_write(partial / _RESUME_RECORD) as temporary:
        temporary.write_text(fingerprint, encoding="utf-8")
    return partial


def _is_begun(partial: Path, fingerprint: str) -> bool:
    """Whether a run with this fingerprint works in the directory, or was interrupted there."""
    try:
        return (partial / _RESUME_RECORD).read_text(encoding="utf-8") == fingerprint
    except FileNotFoundError:
        return False


def _swap(partial: Path, output: Path) -> None:
    """Put the new directory in place of the old; a kill in between leaves one, the other or none."""
    old = _sibling(output, "old")
    if output.exists():
        output.rename(old)
    partial.rename(output)
    _remove(old)


def _refuse_foreign_directory(output: Path) -> None:
    if not output.exists() or (output / RECORD).is_file():
        return
    if not output.is_dir() or any(output.iterdir()):
        raise InputError(
            f"{output}: exists, but no step of this program made it; move it away or choose another directory"
        )


@contextmanager
def _lock(output: Path) -> Iterator[None]:
    # The file stays behind: removing a lock file lets two processes lock two files of one name.
    with output.with_name(f".{output.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{output}: another process is building it; wait until it has ended") from None
        # A training that outlives its killed parent keeps the lock, and the directory to itself.
        os.set_inheritable(file.fileno(), True)
        yield


def _sibling(output: Path, kind: str) -> Path:
    return output.with_name(f"{output.name}.{kind}")


def _remove(directory: Path) -> None:
    """Delete what a step left, its record last: what a kill leaves of it is still known as a step's.

    Raises:
        InputError: if no step made it.
    """
    if not directory.exists():
        return
    records = [directory / name for name in (RECORD, _RESUME_RECORD) if (directory / name).exists()]
    others = [path for path in directory.iterdir() if path not in records] if directory.is_dir() else [directory]
    # Before its record is written, a directory holds nothing but that record's temporary file.
    if not records and not all(path.name.startswith(".") for path in others):
        raise InputError(f"{directory}: is in the way, and no step of this program made it; move it away")
    for path in others:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(directory)


def _log(output: Path, message: str) -> None:
    print(f"{output.name}: {message}", file=sys.stderr, flush=True)
