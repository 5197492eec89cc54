"""Steps: directories that are either complete or absent, and are rebuilt only when necessary.

A step builds one directory from inputs and options. It works in a staging directory next to it
(:mod:`fairseq_ext.base.staging`), writes ``step.json`` (:mod:`fairseq_ext.base.provenance`) as the last file, and
renames the directory. So a directory under its final name is complete even after a crash, and running the same command
again builds only missing directories.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from fairseq_ext.base.errors import InputError, is_environment
from fairseq_ext.base.executors import Workers, cluster_workers, local_step_workers, submit_step
from fairseq_ext.base.fairseq_cli import quieten_fairseq
from fairseq_ext.base.fairseq_options import FairseqCommand, check_commands
from fairseq_ext.base.hashing import RECORD, foreign_entries
from fairseq_ext.base.processes import cores, this_process
from fairseq_ext.base.progress import tell
from fairseq_ext.base.provenance import (
    Provenance,
    changes,
    check_contents,
    has_all_files,
    is_finished,
    provenance_of,
    read_record,
    write_record,
)
from fairseq_ext.base.staging import Staging, locked

_UP_TO_DATE = "up to date"
_POLL_SECONDS = 0.5
_MOST_AT_ONCE = 4  # without --jobs: each translation holds a model in memory
# fairseq commands that this process has already checked.
_accepted: set[FairseqCommand] = set()


@dataclass(frozen=True)
class Step:
    """A directory to build, with its inputs, its options and the function that builds it.

    Args:
        output: directory to build; its name is the step's name in messages.
        inputs: files and directories whose *contents* the result depends on, in a fixed order.
        options: all other values that the result depends on, as JSON values. The program's own code is not compared:
            include a version, and raise it when the results of ``build`` change.
        build: function that fills the given directory and may return a one-line summary; must be picklable by
            cloudpickle.
        resumable: whether ``build`` continues an interrupted run with the same fingerprint.
        join: function that other processes of the same command run in the directory of a resumable step.
        results: names of files that ``build`` must create.
        commands: fairseq commands of the step; their options are checked before any step runs.
        side_by_side: whether several such steps run at once even without ``--jobs``.
        trains: whether the step trains a model or chooses among trained models.
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

    def provenance(self) -> Provenance:
        """Return the provenance of the directory from the current contents of its inputs."""
        return provenance_of(self.output.name, self.inputs, self.options)


def run_step(step: Step, provenance: Provenance | None = None) -> bool:
    """Build the directory of a step. Return False if it is already up to date.

    Args:
        step: step to run.
        provenance: provenance of the step; computed if None.
    """
    output, staging, provenance = step.output, Staging(step.output), provenance or step.provenance()
    # Check without the lock first: any number of processes may use a finished directory at once.
    if is_finished(output, provenance.fingerprint) and not staging.exists():
        _tell_up_to_date(output)
        return False
    output.parent.mkdir(parents=True, exist_ok=True)
    with locked(output):
        if is_finished(output, provenance.fingerprint):
            staging.clear()
            _tell_up_to_date(output)
            return False
        _refuse_foreign_files(output)
        resumes, reason = _beginning(step, provenance)
        tell(f"{output.name}: {reason}")
        start = time.monotonic()
        made = step.build(staging.unfinished if resumes else staging.start(provenance.fingerprint, provenance))
        for name in step.results:
            if not (staging.unfinished / name).is_file():
                raise InputError(f"{output.name}: did not create its result {name}; change the options that prevent it")
        write_record(staging.unfinished, provenance)
        staging.finish()
    tell(f"{output.name}: done in {time.monotonic() - start:.1f} s{f': {made}' if made else ''}")
    return True


def _tell_up_to_date(output: Path) -> None:
    """Report a finished step, after comparing its files with its record: no other step may read them."""
    record = read_record(output)
    if record is not None:
        check_contents(output, record, [*record.hashes])
    tell(f"{output.name}: {_UP_TO_DATE}")


def _beginning(step: Step, provenance: Provenance) -> tuple[bool, str]:
    """Return whether the build continues an interrupted one, and the reason for building."""
    staging = Staging(step.output)
    if step.resumable and staging.is_begun(provenance.fingerprint):
        return True, "continuing an interrupted run"
    record = read_record(step.output)
    before = record.provenance if record else staging.provenance()
    if record and not has_all_files(step.output, record):
        return False, "made again: some of its files are missing or have other sizes"
    if before is None:
        return False, "started"
    changed = changes(before, provenance, ["/".join(path.parts[-2:]) for path in step.inputs])
    return False, f"made again: {changed or 'an earlier run was interrupted'}"


def _refuse_foreign_files(output: Path) -> None:
    """Refuse to replace a directory with files that no step wrote."""
    record = read_record(output)
    if record is not None:
        others = foreign_entries(output, record.sizes)
        if others:
            raise InputError(f"{output}: contains {others[0]}, which this step did not write; move it away")
    elif (output / RECORD).exists():
        raise InputError(
            f"{output / RECORD}: damaged or edited since a step wrote it; move {output} away and run the command again"
        )
    elif output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(
            f"{output}: already exists and was not created by this program; move it away or choose another directory"
        )


def run_steps(steps: Sequence[Step], *, dry_run: bool = False, jobs: int = 1, scheduler: str | None = None) -> None:
    """Run the steps, or with ``dry_run`` only print the plan to stdout.

    By default, steps run one after the other. With ``jobs`` or the ``scheduler`` of a Dask cluster, several run at
    once, each as soon as its inputs exist. If several processes run the same command, the first builds the steps and
    the other processes follow.
    """
    quieten_fairseq()  # some steps load fairseq into this process
    processes = this_process()
    if (jobs > 1 or scheduler) and processes.count > 1:
        option = f"--scheduler {scheduler}" if scheduler else f"--jobs {jobs}"
        raise InputError(
            f"{option}: cannot be used with {processes.launcher}, whose processes train one system together; remove it"
        )
    check_options(steps)
    if dry_run:
        if processes.is_first:
            print_plan(steps)
    elif not processes.is_first:
        for step in steps:
            _follow_step(step)
    elif scheduler:
        with cluster_workers(scheduler) as workers:
            _run_graph(steps, workers, cores())
    else:
        _run_here(steps, jobs)


def _run_here(steps: Sequence[Step], jobs: int) -> None:
    """Run steps on this machine: in parallel with ``jobs``; otherwise in order, except for ``side_by_side`` steps."""
    groups = [(True, list(steps))] if jobs > 1 else groupby(steps, lambda step: step.side_by_side)
    for at_once, found in groups:
        group = list(found)
        count = min(_places(jobs), len(group)) if at_once else 1
        if count > 1:
            with local_step_workers(count) as workers:
                _run_graph(group, workers, max(1, cores() // count))
        else:
            for step in group:
                run_here(step)


def _places(jobs: int) -> int:
    """Return how many steps run at once on this machine; without ``--jobs``, 1 if there is a GPU."""
    if jobs > 1:
        return jobs
    import torch  # slow to import

    return 1 if torch.cuda.is_available() else min(cores(), _MOST_AT_ONCE)


def run_here(step: Step, provenance: Provenance | None = None) -> None:
    """Run a step in this process. Errors of the environment, such as a full disk, become input errors."""
    try:
        run_step(step, provenance)
    except OSError as error:
        if not is_environment(error):
            raise
        raise InputError(f"{step.output.name}: {error}; correct this and run the same command again") from None


def _run_graph(steps: Sequence[Step], workers: Workers, threads: int) -> None:
    """Run each step as soon as its inputs are built. After a failure, start no further steps."""
    before, done = _made_from(steps), set[int]()
    waiting, running = list(range(len(steps))), dict[Future, int]()
    try:
        while len(done) < len(steps):
            for number in list(waiting):
                if not before[number] <= done:
                    continue
                waiting.remove(number)
                if _was_built(steps[number]) and not Staging(steps[number].output).exists():
                    _tell_up_to_date(steps[number].output)
                    done.add(number)
                else:
                    running[_submit(steps[number], workers, threads)] = number
            for future in workers.wait(running):
                done.add(running.pop(future))
                future.result()
    except Exception:
        left = {future for future in running if not future.cancel()}
        while left:
            left -= workers.wait(left)
        raise


def _submit(step: Step, workers: Workers, threads: int) -> Future:
    """Submit a step to a worker; steps that train or translate need a GPU if there is one."""
    import cloudpickle  # fairseq's commands do not need it

    executor = workers.gpu_executor if step.trains or step.side_by_side else workers.executor
    return submit_step(cloudpickle.dumps((step, step.provenance())), executor, threads, workers.topic)


def run_pickled() -> None:
    """Run the pickled step and provenance from stdin. Input errors go to stdout, messages to stderr."""
    quieten_fairseq()
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)  # output that a step prints goes to stderr
        try:
            run_here(*pickle.load(sys.stdin.buffer))
        except InputError as error:
            json.dump(str(error), answer)


def _made_from(steps: Sequence[Step]) -> list[set[int]]:
    """Return, for each step, the indices of earlier steps whose outputs contain its inputs."""
    numbers: dict[Path, int] = {}
    found = []
    for number, step in enumerate(steps):
        found.append({numbers[path] for given in step.inputs for path in (given, *given.parents) if path in numbers})
        numbers[step.output] = number
    return found


def check_options(steps: Sequence[Step]) -> None:
    """Validate the fairseq options of unfinished steps with fairseq, in the first process only."""
    if not this_process().is_first:
        return
    waiting = [step for step in steps if not _accepted.issuperset(step.commands)]
    check_commands([command for step in waiting if not _was_built(step) for command in step.commands])
    _accepted.update(command for step in waiting for command in step.commands)


def _was_built(step: Step) -> bool:
    """Return whether a step is finished, as far as this is known before its inputs have been rebuilt."""
    if not step.output.is_dir() or not all(path.exists() for path in step.inputs):
        return False
    try:
        return is_finished(step.output, step.provenance().fingerprint)
    except InputError:  # an input is damaged; the step reports it when it runs, or the input is rebuilt
        return False


def _follow_step(step: Step) -> None:
    """Take part in a step that another process of the same command builds, and return when it is finished."""
    fingerprint, staging = step.provenance().fingerprint, Staging(step.output)
    join = step.join
    while not is_finished(step.output, fingerprint):
        if join is not None and staging.is_begun(fingerprint):
            join(staging.unfinished)
            join = None
        time.sleep(_POLL_SECONDS)


def print_plan(steps: Sequence[Step]) -> None:
    """Print one line per step: its state or action, its directory, and the reason."""
    to_build: set[Path] = set()
    for step in steps:
        act, why = "build", ""
        # A step after one that will change cannot be judged until that one has run.
        if not any(to_build & {path, *path.parents} for path in step.inputs):
            act, why = _planned(step)
        if act != _UP_TO_DATE:
            to_build.add(step.output)
        print(f"{act:<12}{step.output}{why and f' ({why})'}")


def _planned(step: Step) -> tuple[str, str]:
    provenance = step.provenance()
    if is_finished(step.output, provenance.fingerprint):
        return _UP_TO_DATE, ""
    resumes, reason = _beginning(step, provenance)
    return "continue" if resumes else "build", reason.partition(": ")[2]


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of packages that a step's result depends on, for its options."""
    return {name: version(name) for name in packages}


def check_replaceable(path: Path) -> None:
    """Check that a file may be written to ``path``: a device or pipe would be replaced by it."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is not a regular file; give another path")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path``; it replaces ``path`` if the block ends without an error.

    Raises:
        InputError: if ``path`` is a device, pipe or folder; see :func:`check_replaceable`.
    """
    check_replaceable(path)
    path = Path(os.path.realpath(path))  # a link stays, and its file is replaced
    path.parent.mkdir(parents=True, exist_ok=True)
    # Keep the suffix last: some writers (numpy, matplotlib) choose the format by it.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
