"""Run fairseq-train in separate processes that pause between the rounds of a benchmark."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from benchmarks.shared.cases import Figures
from fairseq_ext.base.children import end_with_parent

_CLOCK = os.sysconf("SC_CLK_TCK")


class Training:
    """A training run that advances by a given number of updates; forked, so that fairseq is loaded once.

    Args:
        arguments: arguments of fairseq-train.
        folder: folder for its stderr output.
        processes: number of processes that train together with gloo; 1 leaves the choice to fairseq.
        threads: threads per process.
    """

    def __init__(self, arguments: Sequence[str], folder: Path, processes: int, threads: int) -> None:
        import fairseq_cli.train  # noqa: F401  (imported here, once for all processes)

        self._messages = folder / "messages"
        reading, writing = os.pipe()
        self._lines = os.fdopen(reading, "rb", buffering=0)
        self._rest = b""
        self._pids: list[int] = []
        port = _free_port()
        for rank in range(processes):
            words = [*arguments, *(_rank_arguments(rank, processes, port) if processes > 1 else [])]
            self._pids.append(self._fork(words, writing if rank == 0 else None, threads))
        os.close(writing)

    def go_on(self, updates: int) -> Figures:
        """Run one uncounted update, then ``updates`` measured ones.

        Raises:
            RuntimeError: if the training run ends.
        """
        self._drop_lines()
        os.killpg(self._pids[0], signal.SIGCONT)
        self._next_update()
        start, cpu = time.perf_counter(), sum(map(_cpu_seconds, self._pids))
        words = sum(self._next_update() for _ in range(updates))
        wall, cpu = time.perf_counter() - start, sum(map(_cpu_seconds, self._pids)) - cpu
        os.killpg(self._pids[0], signal.SIGSTOP)
        return {"wall": wall, "cpu": cpu, "rate": words / wall, "peak": sum(map(_peak_mib, self._pids))}

    def close(self) -> None:
        """End the training run."""
        os.killpg(self._pids[0], signal.SIGKILL)
        for pid in self._pids:
            os.waitpid(pid, 0)
        self._lines.close()

    def _fork(self, words: Sequence[str], stdout: int | None, threads: int) -> int:
        parent = os.getpid()
        pid = os.fork()
        group = self._pids[0] if self._pids else pid
        if not pid:
            end_with_parent(parent)
            messages = os.open(self._messages, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(messages if stdout is None else stdout, 1)
            os.dup2(messages, 2)
            _train(words, threads)
        os.setpgid(pid, group)
        return pid

    def _next_update(self) -> float:
        """Wait for the log line of an update, and return its words."""
        while True:
            line, found, self._rest = self._rest.partition(b"\n")
            if not found:
                more = os.read(self._lines.fileno(), 1 << 16)
                if not more:
                    tail = self._messages.read_text(encoding="utf-8", errors="replace")[-2000:]
                    raise RuntimeError(f"fairseq-train ended:\n{tail}")
                self._rest = line + more
            elif update := re.search(rb'\{"epoch".*"wpb".*\}', line):
                return float(json.loads(update[0])["wpb"])

    def _drop_lines(self) -> None:
        """Discard output from before the pause."""
        self._rest = b""
        os.set_blocking(self._lines.fileno(), False)
        while self._lines.read(1 << 16):
            pass
        os.set_blocking(self._lines.fileno(), True)


def _train(words: Sequence[str], threads: int) -> NoReturn:
    """Turn this process into fairseq-train."""
    import logging

    import torch
    from fairseq_cli import train

    status = 1
    try:
        # fairseq-train logs to stdout.
        sys.stdout = os.fdopen(1, "w", buffering=1)
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, force=True)
        torch.set_num_threads(threads)
        sys.argv[1:] = words
        train.cli_main()
        status = 0
    finally:
        os._exit(status)


def _rank_arguments(rank: int, processes: int, port: int) -> list[str]:
    words = f"--distributed-world-size {processes} --distributed-rank {rank} --distributed-no-spawn "
    words += f"--distributed-init-method tcp://127.0.0.1:{port} --distributed-backend gloo --ddp-backend legacy_ddp"
    return words.split()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process's threads; 0 if the system does not provide it."""
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return sum(map(int, times)) / _CLOCK


def _peak_mib(pid: int) -> float:
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0
