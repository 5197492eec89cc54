"""Where steps run several at once: in processes of this machine, or on the workers of a Dask cluster.

Either way a step runs in a process of its own, which starts with nothing loaded and ends with the process that started
it. So every pool gives the same bytes, and a killed worker takes its step with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import cloudpickle

from fairseq_ext.engine.children import how_it_ended, start_child
from fairseq_ext.engine.cluster import dask_client, has_resource
from fairseq_ext.engine.fairseq_cli import own_environment
from fairseq_ext.engine.processes import cores, without_launcher
from fairseq_ext.engine.progress import tell
from fairseq_ext.engine.provenance import Provenance
from fairseq_ext.inputs.errors import InputError

if TYPE_CHECKING:
    from fairseq_ext.engine.steps import Step

_MOST_AT_ONCE = 4  # without --jobs: each translation holds a model in memory
_POLL_SECONDS = 0.5
# Sums of another number of threads differ in the last digit. Dask sets these to 1 for its workers.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_GPU = "GPU"
_running: set[subprocess.Popen] = set()


@dataclass(frozen=True)
class Pool:
    """Runs steps.

    Attributes:
        submit: begins a step as soon as there is a place.
        check: called now and then; raises if no step can run any more.
    """

    submit: Callable[[Step, Provenance], Future]
    check: Callable[[], None] = lambda: None


def places(jobs: int) -> int:
    """How many steps run at once on this machine; a GPU is filled by one."""
    import torch  # takes seconds

    if torch.cuda.is_available():
        return 1
    return jobs if jobs > 1 else min(cores(), _MOST_AT_ONCE)


@contextmanager
def local_pool(count: int) -> Iterator[Pool]:
    """Processes of this machine, which share its cores unless ``OMP_NUM_THREADS`` says otherwise."""
    threads = _threads(max(1, cores() // count))
    with ThreadPoolExecutor(count) as executor:

        def submit(step: Step, provenance: Provenance) -> Future:
            return executor.submit(_run_in_process, cloudpickle.dumps((step, provenance)), os.getcwd(), threads, tell)

        try:
            yield Pool(submit)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in list(_running):
                process.kill()
            raise


@contextmanager
def cluster_pool(scheduler: str) -> Iterator[Pool]:
    """The workers of a Dask cluster; those with the resource ``GPU`` take the steps that train or translate.

    Raises:
        InputError: if the scheduler does not answer, has no workers, or is lost on the way.
    """
    threads, topic = _threads(cores()), f"steps-{uuid4()}"
    with dask_client(scheduler) as (client, check):
        client.subscribe_topic(topic, lambda event: tell(event[1]))
        anywhere = client.get_executor(pure=False)
        on_gpus = client.get_executor(pure=False, resources={_GPU: 1}) if has_resource(client, _GPU) else anywhere

        def submit(step: Step, provenance: Provenance) -> Future:
            executor = on_gpus if step.trains or step.side_by_side else anywhere
            work = cloudpickle.dumps((step, provenance))
            return executor.submit(_run_on_worker, work, os.getcwd(), threads, topic)

        yield Pool(submit, check)


def _threads(count: int) -> dict[str, str]:
    """How many threads steps compute with: as many as this process was told, else ``count``."""
    return {"OMP_NUM_THREADS": str(count)} | {name: os.environ[name] for name in _THREADS if os.environ.get(name)}


def _run_on_worker(work: bytes, folder: str, threads: Mapping[str, str], topic: str) -> None:
    """Run a step on a worker of a cluster, unless the command that wants it has gone."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    _run_in_process(work, folder, threads, partial(worker.log_event, topic), is_wanted)


def _run_in_process(
    work: bytes,
    folder: str,
    threads: Mapping[str, str],
    say: Callable[[str], object],
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Run a step in a process of its own.

    Args:
        work: the step and its provenance, pickled.
        folder: the working directory.
        threads: the variables that say with how many threads it computes.
        say: gets the lines that it writes to stderr.
        is_wanted: asked now and then; the process is killed when the step is not wanted any more.

    Raises:
        InputError: of the step, or saying how the process ended.
    """
    own = without_launcher(own_environment())
    environment = {name: value for name, value in own.items() if name not in _THREADS}
    command = [sys.executable, "-P", "-c", "from fairseq_ext.engine.steps import run_pickled; run_pickled()"]
    process = start_child(command, cwd=folder, env={**environment, **threads}, start_new_session=True)
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
