"""Process in which the code of one checkout is measured, one round per request.

``python -m benchmarks.shared.worker FOLDER VERB OPTION…`` reads case names as JSON from standard input, one per line,
and writes measurements to standard output. An empty name closes open cases.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.shared.cases import Case, MissingError, Ready
from benchmarks.shared.verbs import parse, verb_module


class Worker:
    """Cases of a verb, prepared at the first request."""

    def __init__(self, folder: Path, cases: list[Case]) -> None:
        self.folder = folder
        self.cases = {case.name: case for case in cases}
        self.ready: dict[str, Ready | MissingError] = {}

    def close(self) -> dict[str, Any]:
        """Close all prepared cases; the answer to an empty name."""
        for ready in self.ready.values():
            if isinstance(ready, Ready):
                ready.close()
        self.ready.clear()
        return {}

    def answer(self, name: str) -> dict[str, Any]:
        """Run one round of a case, and return its figures and facts, or what it lacks."""
        if name not in self.ready:
            self.ready[name] = self._prepare(self.cases[name])
        ready = self.ready[name]
        if isinstance(ready, MissingError):
            return {"missing": str(ready)}
        wall, cpu = time.perf_counter(), cpu_seconds()
        own = ready.run() or {}
        figures = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu}
        return {"figures": figures | dict(own), "facts": dict(ready.facts), "peak": peak_mib()}

    def _prepare(self, case: Case) -> Ready | MissingError:
        folder = self.folder / str(list(self.cases).index(case.name))
        folder.mkdir()
        try:
            return case.prepare(folder)
        except MissingError as missing:
            return missing


def cpu_seconds() -> float:
    """Return the CPU time of this process and its finished child processes."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def peak_mib() -> float:
    """Return the peak memory of this process or of its largest child, in MiB."""
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes on macOS, KiB elsewhere


def main() -> None:
    # Printed output goes to stderr; stdout is for answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder, *words = sys.argv[1:]
    options = parse(words)
    worker = Worker(Path(folder), verb_module(options.verb).cases(options))
    try:
        for line in sys.stdin:
            name = json.loads(line)
            answer = worker.answer(name) if name else worker.close()
            print(json.dumps(answer), file=answers, flush=True)
    finally:
        worker.close()


if __name__ == "__main__":
    main()
