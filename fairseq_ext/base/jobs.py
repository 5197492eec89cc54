"""Independent jobs, run on the cores of this machine or on a Dask cluster.

Each job builds one directory. It works under a temporary name and renames the directory when it is complete. So the
existence of the directory shows that the job is done, even after an interrupted run. The results do not depend on the
process that runs a job.
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

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.executors import cluster_workers, local_workers
from fairseq_ext.base.processes import cores

# Folder for a step's jobs; no domain can have this name.
JOBS_DIR = ".jobs"
# Function that builds job INDEX in the empty directory OUTPUT: job(index, output).
Job = Callable[[int, Path], Any]


@dataclass(frozen=True)
class Engine:
    """Where jobs run; does not affect results."""

    # Number of processes on this machine; 0 for one per core.
    workers: int = 0
    # Address (``tcp://HOST:PORT``) or file of a Dask scheduler, whose workers are used instead. They need the same file
    # system and this project on their ``PYTHONPATH``.
    scheduler: str | None = None


THIS_MACHINE = Engine()


def job_output(folder: Path, index: int) -> Path:
    """Return the directory of a finished job."""
    return folder / f"{index:06d}"


def remove_jobs(folder: Path) -> None:
    """Delete the jobs' directories. They are renamed first, so that an interruption leaves no incomplete job."""
    gone = folder.with_name(f"{folder.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone)


def run_jobs(
    job: Job,
    folder: Path,
    count: int,
    engine: Engine,
    label: str,
    sizes: Sequence[int] | None = None,
    unit: str = "job",
) -> list[Any]:
    """Run the unfinished jobs among 0 to ``count - 1``, and return their results in no particular order.

    Args:
        job: function to run; must be picklable and hold absolute paths, because other processes run it.
        folder: directory for the results (:func:`job_output`).
        count: number of jobs.
        engine: where to run the jobs.
        label: label of the progress bar on stderr.
        sizes: size of each job in ``unit``, counted by the progress bar; 1 each by default.
        unit: unit of the sizes in the progress bar.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [index for index in range(count) if not job_output(folder, index).exists()]
    sizes = [1] * count if sizes is None else sizes
    total, results = sum(sizes), []
    done = total - sum(sizes[index] for index in missing)
    with tqdm(total=total, initial=done, desc=label, unit=unit, disable=None) as progress:
        for index, result in _run_missing(job, folder, missing, engine):
            results.append(result)
            progress.update(sizes[index])
    return results


def fill_by_jobs(folder: Path, job: Job, count: int, engine: Engine, label: str) -> list[Any]:
    """Run jobs like :func:`run_jobs`, and move their files, with their subdirectories, to ``folder``."""
    jobs = folder / JOBS_DIR
    results = run_jobs(job, jobs, count, engine, label)
    for index in range(count):
        output = job_output(jobs, index)
        for path in sorted(output.rglob("*")):
            if path.is_file():  # an interrupted run may have moved the files already
                target = folder / path.relative_to(output)
                target.parent.mkdir(exist_ok=True)
                path.rename(target)
    remove_jobs(jobs)
    return results


def _run_missing(job: Job, folder: Path, missing: list[int], engine: Engine) -> Iterator[tuple[int, Any]]:
    """Yield the index and the result of each job as it finishes."""
    count = min(engine.workers or cores(), len(missing))
    if engine.scheduler is None and count <= 1:
        for index in missing:
            yield index, _run_job(job, folder, index)
        return
    with local_workers(count) if engine.scheduler is None else cluster_workers(engine.scheduler) as workers:
        futures = {workers.executor.submit(_run_job, job, folder.resolve(), index): index for index in missing}
        try:
            waiting = set(futures)
            while done := workers.wait(waiting):
                waiting -= done
                for future in done:
                    yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()


def _run_job(job: Job, folder: Path, index: int) -> Any:
    output = job_output(folder, index)
    # A unique name, because an orphan of a killed run may still be writing.
    partial = folder / f".{output.name}.{socket.gethostname()}.{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        result = job(index, partial)
        if not output.exists():
            partial.rename(output)
    except OSError as error:
        raise InputError(f"{folder}: {error}; correct this and run the same command again") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return result
