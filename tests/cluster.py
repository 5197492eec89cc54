"""A Dask cluster of separate processes on this machine, as several machines would form."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fork_server import PYTHON

ROOT = Path(__file__).parents[1]
# A worker, whose steps start commands as the tests do.
DASK = "import sys; sys.executable = sys.argv.pop(1); sys.argv[0] = 'dask'; from dask.__main__ import main; main()"


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of a test module returns, called where no other test has left a thread of Dask's."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        return executor.submit(function, *arguments).result()


@contextmanager
def dask_cluster(folder: Path, workers: int = 2, processes: list[int] | None = None) -> Iterator[Path]:
    """Start a scheduler and workers, each in a directory of its own in ``folder``; yields the scheduler file.

    ``processes`` gets their process numbers, the scheduler's first.
    """
    file = folder / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__WORKER__DAEMON": "False"}
    ports = ["--port", "0", "--dashboard-address", ":0", "--host", "127.0.0.1"]
    worker = ["worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--dashboard-address", ":0"]
    commands = [["scheduler", *ports, "--scheduler-file", str(file)], *[worker] * workers]
    started: list[subprocess.Popen] = []
    try:
        for number, command in enumerate(commands):
            home = folder / f"host{number}"
            home.mkdir()
            with (home / "log").open("w") as log:
                program = [PYTHON, "-c", DASK, sys.executable, *command]
                started.append(subprocess.Popen(program, cwd=home, env=environment, stderr=log))
            while number == 0 and not is_written(file):
                assert started[0].poll() is None, (home / "log").read_text()
                time.sleep(0.05)
        if processes is not None:
            processes += [process.pid for process in started]
        yield file
    finally:
        for process in reversed(started):
            process.kill()
        for process in started:
            process.wait()


def is_written(file: Path) -> bool:
    """Whether the scheduler has come to the end of its file."""
    try:
        return bool(json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return False
