"""Steps: directories that are either finished or absent, and are built again only when they must be.

A step builds one directory from inputs and options. It works in a hidden directory beside it (see
:mod:`fairseq_ext.engine.workspaces`), writes the fingerprint of all it depends on into ``step.json`` as the
last file, and is then renamed. So a directory under its own name is complete, however the machine went
down, and running the same command again does only what is missing.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from fairseq_ext.engine.fairseq_options import FairseqCommand, check_commands
from fairseq_ext.engine.hashing import RECORD
from fairseq_ext.engine.order import made_from, with_company
from fairseq_ext.engine.origins import Origin, changes
from fairseq_ext.engine.processes import this_process
from fairseq_ext.engine.progress import tell
from fairseq_ext.engine.quiet import quieten_fairseq
from fairseq_ext.engine.records import (
    foreign_files,
    has_all_files,
    input_hash,
    is_finished,
    read_record,
    write_record,
)
from fairseq_ext.engine.side_by_side import MOST_AT_ONCE, run_side_by_side
from fairseq_ext.engine.workspaces import Workspace, locked
from fairseq_ext.inputs.errors import InputError, is_environment

_UP_TO_DATE = "up to date"
_POLL_SECONDS = 0.5
# Commands of fairseq's that this process need not check again.
_accepted: set[FairseqCommand] = set()


class _Company(Enum):
    """Beside what a step may run."""

    NONE = "none"
    PROGRAMS = "programs"
    TRAININGS = "trainings"


@dataclass(frozen=True)
class Step:
    """One directory, what it is made from, and how.

    Args:
        output: directory to build; its name is the step's name in messages.
        inputs: files and directories whose *contents* the result depends on, in a fixed order.
        options: everything else the result depends on, as JSON can hold it. The program's own code is
            not compared: give a version here and raise it when ``build`` comes to work differently.
        build: fills the (existing) directory that it is given, and may return a line on what it made.
        resumable: ``build`` continues from what an interrupted run with the same fingerprint left.
        join: what further processes of the same command (see :mod:`fairseq_ext.engine.processes`) do in the
            directory while the first one builds it; None lets them wait. Only for resumable steps.
        results: files that ``build`` must have made; without one of them the step is not finished.
        commands: of fairseq's, as far as they are known already; their options are checked before any step runs.
        side_by_side: ``build`` waits for a program that it starts, which may run while those of other such steps do.
        trains: so does ``build`` for a training, which takes memory, or it chooses among some: others run beside it if
            the user says so.
    """

    output: Path
    inputs: Sequence[Path]
    options: Mapping[str, Any]
    build: Callable[[Path], str | None] = field(compare=False)
    resumable: bool = False
    join: Callable[[Path], None] | None = field(default=None, compare=False)
    results: Sequence[str] = ()
    commands: Sequence[FairseqCommand] = field(default=(), compare=False)
    side_by_side: bool = field(default=False, compare=False)
    trains: bool = field(default=False, compare=False)

    def origin(self) -> Origin:
        """What the directory is made from, as its inputs are now.

        Raises:
            InputError: naming the first input that does not exist, or is not as the step before left it.
        """
        return _origin(self.output, self.inputs, self.options)


def run_step(step: Step) -> bool:
    """Build the directory of a step unless it is finished already.

    Returns:
        True if ``build`` ran, False if the directory was up to date.

    Raises:
        InputError: if an input is missing or damaged, another process builds the same directory, the directory holds
            files that no step made (they are never deleted), or ``build`` did not make what it should.
    """
    output, workspace, origin = step.output, Workspace(step.output), step.origin()
    # Without the lock first: any number of processes may use a finished directory at once.
    if is_finished(output, origin.fingerprint) and not workspace.exists():
        _log(output, _UP_TO_DATE)
        return False
    output.parent.mkdir(parents=True, exist_ok=True)
    with locked(output):
        workspace.restore()
        if is_finished(output, origin.fingerprint):
            workspace.clear()
            _log(output, _UP_TO_DATE)
            return False
        _refuse_foreign_files(output)
        _build(step, workspace, origin)
    return True


def _build(step: Step, workspace: Workspace, origin: Origin) -> None:
    unfinished = _begin(step, workspace, origin)
    start = time.monotonic()
    made = step.build(unfinished)
    for name in step.results:
        if not (unfinished / name).is_file():
            raise InputError(
                f"{step.output.name}: ended without {name}, its result; change the options that keep it from being made"
            )
    write_record(unfinished, origin)
    workspace.finish()
    _log(step.output, f"done in {time.monotonic() - start:.1f} s{f': {made}' if made else ''}")


def _begin(step: Step, workspace: Workspace, origin: Origin) -> Path:
    """The directory to build in, with what an interrupted run left in it; says which that is."""
    resumes, words = _beginning(step, workspace, origin)
    _log(step.output, words)
    return workspace.unfinished if resumes else workspace.start(origin.fingerprint, origin)


def _beginning(step: Step, workspace: Workspace, origin: Origin) -> tuple[bool, str]:
    """Whether the build of a directory that is not up to date continues an interrupted one; and in words, with why."""
    if step.resumable and workspace.is_begun(origin.fingerprint):
        return True, "continuing an interrupted run"
    begun, record = workspace.origin(), read_record(step.output)
    if record is None:
        return False, f"made anew: {_changes(step, begun, origin)}" if begun else "started"
    if not has_all_files(step.output, record):
        return False, "made anew: files of it are gone or have other sizes"
    if record.origin is None:
        return False, "made anew: an earlier version made it, from something else, and recorded not what"
    return False, f"made anew: {_changes(step, record.origin, origin)}"


def _changes(step: Step, before: Origin, now: Origin) -> str:
    return changes(before, now, ["/".join(path.parts[-2:]) for path in step.inputs])


def run_steps(steps: Sequence[Step], *, dry_run: bool = False, jobs: int = 1) -> None:
    """Run the steps in order, or with ``dry_run`` only print what each of them would do (stdout).

    Neighbours that may run side by side do, each as soon as what it is made from is there. Of several processes that
    run the same command, the first builds the steps and the others follow.

    Args:
        steps: to run.
        dry_run: only print the plan.
        jobs: trainings at once, at most, where there is no GPU.

    Raises:
        InputError: as :func:`run_step` does, or naming a hindrance of the machine.
    """
    quieten_fairseq()  # which some steps load into this process
    processes = this_process()
    if jobs > 1 and processes.count > 1:
        raise InputError(f"--jobs {jobs}: {processes.launcher}'s processes train one system together; leave it out")
    check_options(steps)
    if dry_run:
        if processes.is_first:
            print_plan(steps)
        return
    if not processes.is_first:
        for step in steps:
            _run(step, follow_step)
        return
    for group in _groups(steps, jobs):
        most = jobs if group[0].trains else MOST_AT_ONCE
        run_side_by_side([partial(_run, step, run_step) for step in group], most, made_from(group))


def _run(step: Step, run: Callable[[Step], object]) -> None:
    try:
        run(step)
    except OSError as error:
        if not is_environment(error):
            raise
        raise InputError(f"{step.output.name}: {error}; mend that and run the same command again") from None


def _groups(steps: Sequence[Step], jobs: int) -> Iterator[list[Step]]:
    """The steps in their order, those together that run side by side."""
    for kind, found in groupby(steps, partial(_company, jobs=jobs)):
        if kind is _Company.NONE:
            for step in found:  # of which the next is judged when this one is done
                yield [step]
        else:
            yield from with_company(list(found))


def _company(step: Step, jobs: int) -> _Company:
    """Beside what a step may run, as things are now."""
    if step.trains:
        # What is finished counts, or one that is resumed would have other threads than it began with, whose sums are
        # others in the last digit.
        return _Company.TRAININGS if jobs > 1 else _Company.NONE
    # What is finished only says so, and leaves the cores to what is not.
    return _Company.PROGRAMS if step.side_by_side and not _was_built(step) else _Company.NONE


def check_options(steps: Sequence[Step]) -> None:
    """Let fairseq read the options of the commands that unfinished steps will run; once in all processes together.

    Raises:
        InputError: naming the first option that it does not take; see
            :func:`~fairseq_ext.engine.fairseq_options.check_commands`.
    """
    if not this_process().is_first:
        return
    waiting = [step for step in steps if not _accepted.issuperset(step.commands)]
    check_commands([command for step in waiting if not _was_built(step) for command in step.commands])
    _accepted.update(command for step in waiting for command in step.commands)


def _was_built(step: Step) -> bool:
    """Whether a step is finished as far as can be said before those that it builds on have run."""
    if not step.output.is_dir() or not all(path.exists() for path in step.inputs):
        return False
    try:
        return is_finished(step.output, step.origin().fingerprint)
    except InputError:  # of an input that is damaged; the step itself will say so, or it is made anew
        return False


def add_step_options(parser: argparse.ArgumentParser) -> None:
    """Give a command line the option ``--dry-run`` of :func:`run_steps`."""
    parser.add_argument("--dry-run", action="store_true", help="only print which steps would run")


def follow_step(step: Step) -> None:
    """Join in a step that another process of the same command builds, and return when it is finished."""
    fingerprint, workspace = step.origin().fingerprint, Workspace(step.output)
    while not is_finished(step.output, fingerprint):
        if step.join is not None and workspace.is_begun(fingerprint):
            step.join(workspace.unfinished)
            break
        time.sleep(_POLL_SECONDS)
    while not is_finished(step.output, fingerprint):
        time.sleep(_POLL_SECONDS)


def print_plan(steps: Sequence[Step]) -> None:
    """Print one line a step: whether it is finished or what would be done, its directory, and why."""
    to_build: set[Path] = set()
    for step in steps:
        what = "build"
        # A step after one that will change cannot be judged before that one has run.
        if not any(to_build & {path, *path.parents} for path in step.inputs):
            what = _planned(step)
        if what != _UP_TO_DATE:
            to_build.add(step.output)
        act, _, why = what.partition(": ")
        print(f"{act:<12}{step.output}{why and f' ({why})'}")


def _planned(step: Step) -> str:
    origin = step.origin()
    if is_finished(step.output, origin.fingerprint):
        return _UP_TO_DATE
    resumes, words = _beginning(step, Workspace(step.output), origin)
    return f"{'continue' if resumes else 'build'}: {words.partition(': ')[2]}"


def step_fingerprint(output: Path, inputs: Sequence[Path], options: Mapping[str, Any]) -> str:
    """SHA-256 over the options and the contents of the inputs; where these lie does not matter.

    Raises:
        InputError: naming the first input that does not exist, or is not as the step before left it.
    """
    return _origin(output, inputs, options).fingerprint


def _origin(output: Path, inputs: Sequence[Path], options: Mapping[str, Any]) -> Origin:
    for path in inputs:
        if not path.exists():
            raise InputError(f"{output.name}: its input {path} does not exist; make it first")
    return Origin(options, [input_hash(path) for path in inputs])


def versions(*packages: str) -> dict[str, str]:
    """The versions of packages that a step's result depends on, as one of its options."""
    return {name: version(name) for name in packages}


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


def _refuse_foreign_files(output: Path) -> None:
    """Refuse to replace a directory that holds more than what a step wrote there."""
    if not output.exists():
        return
    record = read_record(output)
    if record is not None:
        others = foreign_files(output, record)
        if others:
            raise InputError(f"{output}: is to be made anew, but {others[0]} in it is of no step; move that file away")
    elif (output / RECORD).exists():
        raise InputError(f"{output / RECORD}: is not as a step wrote it; move {output} away and run the command again")
    elif not output.is_dir() or any(output.iterdir()):
        raise InputError(
            f"{output}: exists, but no step of this program made it; move it away or choose another directory"
        )


def _log(output: Path, message: str) -> None:
    tell(f"{output.name}: {message}")
