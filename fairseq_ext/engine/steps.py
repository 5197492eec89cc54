"""Steps: directories that are either finished or absent, and are built again only when they must be.

A step builds one directory from inputs and options. It works in a staging directory beside it
(:mod:`fairseq_ext.engine.staging`), writes ``step.json`` (:mod:`fairseq_ext.engine.provenance`) as the last file, and
is then renamed. So a directory under its own name is complete, however the machine went down, and running the same
command again does only what is missing.
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

from fairseq_ext.engine.executors import Workers, cluster_workers, local_step_workers, submit_step
from fairseq_ext.engine.fairseq_cli import quieten_fairseq
from fairseq_ext.engine.fairseq_options import FairseqCommand, check_commands
from fairseq_ext.engine.hashing import RECORD, relative_files
from fairseq_ext.engine.processes import cores, this_process
from fairseq_ext.engine.progress import tell
from fairseq_ext.engine.provenance import (
    Provenance,
    changes,
    has_all_files,
    is_finished,
    provenance_of,
    read_record,
    write_record,
)
from fairseq_ext.engine.staging import Staging, locked
from fairseq_ext.inputs.errors import InputError, is_environment

_UP_TO_DATE = "up to date"
_POLL_SECONDS = 0.5
_MOST_AT_ONCE = 4  # without --jobs: each translation holds a model in memory
# Commands of fairseq's that this process need not check again.
_accepted: set[FairseqCommand] = set()


@dataclass(frozen=True)
class Step:
    """One directory, what it is made from, and how.

    Args:
        output: directory to build; its name is the step's name in messages.
        inputs: files and directories whose *contents* the result depends on, in a fixed order.
        options: everything else the result depends on, as JSON can hold it. The program's own code is
            not compared: give a version here and raise it when ``build`` comes to work differently.
        build: fills the directory that it is given, and may return a line on what it made; cloudpickle takes it.
        resumable: ``build`` continues from what an interrupted run with the same fingerprint left.
        join: what further processes of the same command do in the directory of a resumable step meanwhile.
        results: files that ``build`` must have made.
        commands: of fairseq's; their options are checked before any step runs.
        side_by_side: several such steps run at once, also without ``--jobs``.
        trains: it trains, or chooses among trainings.
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
        """What the directory is made from, as its inputs are now."""
        return provenance_of(self.output.name, self.inputs, self.options)


def run_step(step: Step, provenance: Provenance | None = None) -> bool:
    """Build the directory of a step, whose provenance may be known; False if it is up to date already."""
    output, staging, provenance = step.output, Staging(step.output), provenance or step.provenance()
    # Without the lock first: any number of processes may use a finished directory at once.
    if is_finished(output, provenance.fingerprint) and not staging.exists():
        tell(f"{output.name}: {_UP_TO_DATE}")
        return False
    output.parent.mkdir(parents=True, exist_ok=True)
    with locked(output):
        if is_finished(output, provenance.fingerprint):
            staging.clear()
            tell(f"{output.name}: {_UP_TO_DATE}")
            return False
        _refuse_foreign_files(output)
        resumes, reason = _beginning(step, provenance)
        tell(f"{output.name}: {reason}")
        start = time.monotonic()
        made = step.build(staging.unfinished if resumes else staging.start(provenance.fingerprint, provenance))
        for name in step.results:
            if not (staging.unfinished / name).is_file():
                raise InputError(
                    f"{output.name}: ended without {name}, its result; change the options that keep it from being made"
                )
        write_record(staging.unfinished, provenance)
        staging.finish()
    tell(f"{output.name}: done in {time.monotonic() - start:.1f} s{f': {made}' if made else ''}")
    return True


def _beginning(step: Step, provenance: Provenance) -> tuple[bool, str]:
    """Whether the build continues an interrupted one, and why it is needed."""
    staging = Staging(step.output)
    if step.resumable and staging.is_begun(provenance.fingerprint):
        return True, "continuing an interrupted run"
    record = read_record(step.output)
    before = record.provenance if record else staging.provenance()
    if record and not has_all_files(step.output, record):
        return False, "made anew: files of it are gone or have other sizes"
    if before is None:
        return False, "made anew: an earlier version made it" if record else "started"
    changed = changes(before, provenance, ["/".join(path.parts[-2:]) for path in step.inputs])
    return False, f"made anew: {changed or 'an earlier run was interrupted'}"


def _refuse_foreign_files(output: Path) -> None:
    """Refuse to replace a directory that holds more than a step wrote there."""
    record = read_record(output)
    if record is not None:
        others = [name for name in relative_files(output) if name not in record.sizes]
        if others:
            raise InputError(f"{output}: is to be made anew, but {others[0]} in it is of no step; move that file away")
    elif (output / RECORD).exists():
        raise InputError(f"{output / RECORD}: is not as a step wrote it; move {output} away and run the command again")
    elif output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(
            f"{output}: exists, but no step of this program made it; move it away or choose another directory"
        )


def run_steps(steps: Sequence[Step], *, dry_run: bool = False, jobs: int = 1, scheduler: str | None = None) -> None:
    """Run the steps, or with ``dry_run`` only print what each of them would do (stdout).

    One after the other in their order; with ``jobs`` or the ``scheduler`` of a Dask cluster several at once, each as
    soon as its inputs are there. Of several processes that run the same command, the first builds the steps and the
    others follow.
    """
    quieten_fairseq()  # which some steps load into this process
    processes = this_process()
    if (jobs > 1 or scheduler) and processes.count > 1:
        option = f"--scheduler {scheduler}" if scheduler else f"--jobs {jobs}"
        raise InputError(f"{option}: {processes.launcher}'s processes train one system together; leave it out")
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
    """Run steps on this machine: all with ``jobs`` at once, or in order but for those that may run side by side."""
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
    """How many steps run at once on this machine; without ``--jobs``, one on a GPU."""
    if jobs > 1:
        return jobs
    import torch  # takes seconds

    return 1 if torch.cuda.is_available() else min(cores(), _MOST_AT_ONCE)


def run_here(step: Step, provenance: Provenance | None = None) -> None:
    """Run a step in this process; a hindrance of the machine is an input error."""
    try:
        run_step(step, provenance)
    except OSError as error:
        if not is_environment(error):
            raise
        raise InputError(f"{step.output.name}: {error}; mend that and run the same command again") from None


def _run_graph(steps: Sequence[Step], workers: Workers, threads: int) -> None:
    """Run each step as soon as the steps that make its inputs are done; after a failure no other begins."""
    before, done = _made_from(steps), set[int]()
    waiting, running = list(range(len(steps))), dict[Future, int]()
    try:
        while len(done) < len(steps):
            for number in list(waiting):
                if not before[number] <= done:
                    continue
                waiting.remove(number)
                if _was_built(steps[number]) and not Staging(steps[number].output).exists():
                    tell(f"{steps[number].output.name}: {_UP_TO_DATE}")
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
    """Let a worker, one with a GPU if it trains or translates, run a step."""
    import cloudpickle  # only for steps at once

    executor = workers.gpu_executor if step.trains or step.side_by_side else workers.executor
    return submit_step(cloudpickle.dumps((step, step.provenance())), executor, threads, workers.topic)


def run_pickled() -> None:
    """Run the step on stdin, pickled with its provenance; an input error goes to stdout, messages to stderr."""
    quieten_fairseq()
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)  # for whatever a step prints
        try:
            run_here(*pickle.load(sys.stdin.buffer))
        except InputError as error:
            json.dump(str(error), answer)


def _made_from(steps: Sequence[Step]) -> list[set[int]]:
    """For each step, the numbers of the steps before it whose outputs hold its inputs."""
    numbers: dict[Path, int] = {}
    found = []
    for number, step in enumerate(steps):
        found.append({numbers[path] for given in step.inputs for path in (given, *given.parents) if path in numbers})
        numbers[step.output] = number
    return found


def check_options(steps: Sequence[Step]) -> None:
    """Let fairseq read the options of the commands that unfinished steps will run; once in all processes together."""
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
        return is_finished(step.output, step.provenance().fingerprint)
    except InputError:  # of an input that is damaged; the step itself will say so, or it is made anew
        return False


def _follow_step(step: Step) -> None:
    """Join in a step that another process of the same command builds, and return when it is finished."""
    fingerprint, staging = step.provenance().fingerprint, Staging(step.output)
    join = step.join
    while not is_finished(step.output, fingerprint):
        if join is not None and staging.is_begun(fingerprint):
            join(staging.unfinished)
            join = None
        time.sleep(_POLL_SECONDS)


def print_plan(steps: Sequence[Step]) -> None:
    """Print one line a step: whether it is finished or what would be done, its directory, and why."""
    to_build: set[Path] = set()
    for step in steps:
        act, why = "build", ""
        # A step after one that will change cannot be judged before that one has run.
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
