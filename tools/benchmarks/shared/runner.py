"""Run cases in turn: A B A B …; each checkout has a separate process for all rounds."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.shared.cases import Case
from fairseq_ext.base import children
from fairseq_ext.base.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
HERE, BEFORE = "here", "before"
# Otherwise glibc keeps freed memory, which would dominate the peak.
_GIVE_BACK_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536"}


class WorkerProcess:
    """A worker (:mod:`benchmarks.shared.worker`) with a checkout's code."""

    def __init__(self, code: Path, folder: Path, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self.code = code
        wrapper = [sys.executable, "-I", "-S", children.__file__, str(os.getpid())]
        worker = [sys.executable, "-P", "-m", "benchmarks.shared.worker", str(folder), *words]
        # The code to measure comes first on the path.
        path = os.pathsep.join([str(code), str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        self._process = subprocess.Popen(
            [*wrapper, *worker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONWARNINGS": "ignore", **os.environ, **environment, "PYTHONPATH": path},
        )

    def ask(self, name: str) -> dict[str, Any]:
        """Run one round of a case; an empty name closes open cases.

        Raises:
            InputError: if the process ends.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(name), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            ended = children.how_it_ended(self._process.wait())
            raise InputError(f"measuring {name!r} with the code in {self.code} {ended}")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def checkouts(options: Namespace) -> dict[str, Path]:
    """Return the folders with the code to measure, by name.

    Raises:
        InputError: if the other folder does not contain this project's code.
    """
    if options.against is None:
        return {HERE: ROOT}
    if not (options.against / "fairseq_ext" / "__init__.py").exists():
        raise InputError(f"--against: {options.against} has no fairseq_ext; give a checkout of this project")
    return {HERE: ROOT, BEFORE: options.against.resolve()}


def measure_cases(
    cases: Sequence[Case], options: Namespace, words: Sequence[str], environment: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Run all rounds of all cases.

    Args:
        cases: cases of the verb, in order.
        options: options of the verb, and common options.
        words: command line that the options were parsed from.
        environment: variables for the measuring processes.

    Returns:
        For each case and code, in order: ``case``, ``code``, ``rounds`` (figures, without the warm-up round),
            ``facts``, ``peak`` (MiB, of a separate process, if requested); or ``missing``.
    """
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {**dict.fromkeys(threads, str(options.threads)), **environment}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    codes = checkouts(options)
    with ExitStack() as stack:
        workers = {name: stack.enter_context(_worker(code, words, environment)) for name, code in codes.items()}
        for _, group in itertools.groupby(cases, lambda case: case.group):
            _measure_group(list(group), workers, options.rounds, found)
    for case, (name, code) in itertools.product(cases, codes.items()):
        if case.own_process and "missing" not in found[case.name, name]:
            with _worker(code, words, {**environment, **_GIVE_BACK_MEMORY}) as worker:
                found[case.name, name]["peak"] = worker.ask(case.name)["peak"]
    return list(found.values())


def _measure_group(
    cases: Sequence[Case],
    workers: Mapping[str, WorkerProcess],
    rounds: int,
    found: dict[tuple[str, str], dict[str, Any]],
) -> None:
    for turn in range(rounds + 1):
        for case, (code, worker) in itertools.product(cases, workers.items()):
            entry = found.setdefault((case.name, code), {"case": case.name, "code": code, "rounds": []})
            if "missing" in entry:
                continue
            answer = worker.ask(case.name)
            entry.update({key: answer[key] for key in ("missing", "facts") if key in answer})
            if turn and "figures" in answer:  # the first round is a warm-up
                entry["rounds"].append(_with_rate(answer["figures"], case))
        print(f"{cases[0].group} round {turn} of {rounds}".lstrip(), file=sys.stderr)
    for worker in workers.values():
        worker.ask("")


def _with_rate(figures: dict[str, float], case: Case) -> dict[str, float]:
    if case.amount is not None:
        figures.setdefault("rate", case.amount / figures["wall"])
    return figures


@contextmanager
def _worker(code: Path, words: Sequence[str], environment: Mapping[str, str]) -> Iterator[WorkerProcess]:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        worker = WorkerProcess(code, Path(folder), words, environment)
        try:
            yield worker
        finally:
            worker.close()
