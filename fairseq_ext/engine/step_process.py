"""A step in a process of its own, which starts with nothing loaded and ends with the process that started it.

So a step writes the same bytes on every worker, and a killed worker takes its step with it.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import cloudpickle

from fairseq_ext.engine.children import how_it_ended, start_child
from fairseq_ext.engine.executors import Workers
from fairseq_ext.engine.fairseq_cli import own_environment, quieten_fairseq
from fairseq_ext.engine.processes import without_launcher
from fairseq_ext.engine.progress import tell
from fairseq_ext.inputs.errors import InputError

if TYPE_CHECKING:
    from fairseq_ext.engine.steps import Step

_POLL_SECONDS = 0.5
# Sums of another number of threads differ in the last digit. Dask sets these to 1 for its workers.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_running: set[subprocess.Popen] = set()


@contextmanager
def local_step_workers(count: int) -> Iterator[Workers]:
    """Threads of this process, each of which waits for the process of its step."""
    with ThreadPoolExecutor(count) as executor:
        try:
            yield Workers(executor, executor)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in list(_running):
                process.kill()
            raise


def submit_step(step: Step, workers: Workers, threads: int) -> Future:
    """Let a worker, one with a GPU if it trains or translates, run a step with so many threads.

    ``OMP_NUM_THREADS``, where it is set, counts instead.
    """
    executor = workers.gpu_executor if step.trains or step.side_by_side else workers.executor
    given = {name: os.environ[name] for name in _THREADS if os.environ.get(name)}
    work = cloudpickle.dumps((step, step.provenance()))
    return executor.submit(_run_on_worker, work, os.getcwd(), {"OMP_NUM_THREADS": str(threads)} | given, workers.topic)


def _run_on_worker(work: bytes, folder: str, threads: dict[str, str], topic: str | None) -> None:
    if topic is None:
        _run_in_process(work, folder, threads, tell, lambda: True)
        return
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def is_wanted() -> bool:
        """Whether the command that wants the step is still there."""
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    _run_in_process(work, folder, threads, partial(worker.log_event, topic), is_wanted)


def _run_in_process(
    work: bytes, folder: str, threads: dict[str, str], say: Callable[[str], object], is_wanted: Callable[[], bool]
) -> None:
    """Run a pickled step in a folder, tell its messages, and kill it when it is no longer wanted."""
    environment = without_launcher(own_environment())
    environment = {name: value for name, value in environment.items() if name not in _THREADS} | threads
    command = [sys.executable, "-P", "-c", f"from {__name__} import run_pickled; run_pickled()"]
    process = start_child(command, cwd=folder, env=environment, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    _running.add(process)
    try:
        threading.Thread(target=_kill_when_unwanted, args=(process, is_wanted), daemon=True).start()
        with suppress(BrokenPipeError), process.stdin as stdin:  # its end says why it did not read
            stdin.write(work)
        for line in process.stderr:
            say(line.decode("utf-8", "replace").rstrip())
        answer = process.stdout.read()
        status = process.wait()
    finally:
        process.kill()
        _running.discard(process)
    if answer:
        raise InputError(json.loads(answer))
    if status != 0:
        raise InputError(f"a step {how_it_ended(status)}")


def _kill_when_unwanted(process: subprocess.Popen, is_wanted: Callable[[], bool]) -> None:
    while process.poll() is None:
        if not is_wanted():
            process.kill()
        time.sleep(_POLL_SECONDS)


def run_pickled() -> None:
    """Run the step on stdin, pickled with its provenance; an input error goes to stdout, messages to stderr."""
    from fairseq_ext.engine.steps import run_here

    quieten_fairseq()
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)  # for whatever a step prints
        try:
            run_here(*pickle.load(sys.stdin.buffer))
        except InputError as error:
            json.dump(str(error), answer)
