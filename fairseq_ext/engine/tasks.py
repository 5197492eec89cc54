"""Many independent tasks: on the cores of this machine, or on the machines of a Dask cluster.

A task builds one directory. It works under a temporary name and renames the directory when it is
complete, so a task is recognised as done by its directory alone, whoever ran it and however the last
run ended. Which process runs a task changes nothing in what it writes.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from fairseq_ext.engine.executors import cluster_workers, local_workers
from fairseq_ext.engine.processes import cores
from fairseq_ext.inputs.errors import InputError

# Where a step keeps its tasks; no domain can be named like this.
TASKS_DIR = ".tasks"
# Builds task INDEX into the empty directory OUTPUT: task(index, output).
Task = Callable[[int, Path], Any]


@dataclass(frozen=True)
class Engine:
    """Where tasks run; never changes a result."""

    # Processes on this machine; 0 takes one a core.
    workers: int = 0
    # Address (``tcp://HOST:PORT``) or file of a Dask cluster's scheduler, whose workers are used instead. They see the
    # same file system and have this project on their ``PYTHONPATH``.
    scheduler: str | None = None


THIS_MACHINE = Engine()


def task_output(folder: Path, index: int) -> Path:
    """The directory of a finished task."""
    return folder / f"{index:06d}"


def move_outputs(tasks: Path, count: int, folder: Path) -> None:
    """Move the files that the tasks made into one folder, in their sub-directories, and delete the tasks."""
    for index in range(count):
        output = task_output(tasks, index)
        for path in sorted(output.rglob("*")):
            if path.is_file():  # none is left there if an interrupted run came so far
                target = folder / path.relative_to(output)
                target.parent.mkdir(exist_ok=True)
                path.rename(target)
    remove_tasks(tasks)


def remove_tasks(folder: Path) -> None:
    """Delete the tasks' directories: all at once, so that a kill leaves none that looks done and is not."""
    gone = folder.with_name(f"{folder.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone)


def run_tasks(
    task: Task,
    folder: Path,
    count: int,
    engine: Engine,
    label: str,
    sizes: Sequence[int] | None = None,
    unit: str = "task",
) -> list[Any]:
    """Run the tasks 0 to ``count - 1`` of a job that are not done yet; what these return, in no particular order.

    Args:
        task: must be picklable, and the paths it holds absolute, since other processes run it.
        folder: where the results go (:func:`task_output`).
        engine: where they run.
        label: of the progress bar on stderr.
        sizes: of each task, in ``unit``, which the bar counts; None for one each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [index for index in range(count) if not task_output(folder, index).exists()]
    sizes = [1] * count if sizes is None else sizes
    total, results = sum(sizes), []
    done = total - sum(sizes[index] for index in missing)
    with tqdm(total=total, initial=done, desc=label, unit=unit, disable=None) as progress:
        for index, result in _run_missing(task, folder, missing, engine):
            results.append(result)
            progress.update(sizes[index])
    return results


def _run_missing(task: Task, folder: Path, missing: list[int], engine: Engine) -> Iterator[tuple[int, Any]]:
    """Yield the number and the result of each, as they are done."""
    count = min(engine.workers or cores(), len(missing))
    if engine.scheduler is None and count <= 1:
        for index in missing:
            yield index, _run_task(task, folder, index)
        return
    with local_workers(count) if engine.scheduler is None else cluster_workers(engine.scheduler) as workers:
        futures = {workers.executor.submit(_run_task, task, folder.resolve(), index): index for index in missing}
        try:
            waiting = set(futures)
            while done := workers.wait(waiting):
                waiting -= done
                for future in done:
                    yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()


def _run_task(task: Task, folder: Path, index: int) -> Any:
    output = task_output(folder, index)
    # A name of its own, because an orphan of a killed run may still be writing.
    partial = folder / f".{output.name}.{socket.gethostname()}.{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        result = task(index, partial)
        if not output.exists():
            partial.rename(output)
    except OSError as error:
        raise InputError(f"{folder}: {error}; mend that and run the same command again") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return result
