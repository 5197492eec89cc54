#!/usr/bin/env python3
"""Measure speed and memory: one verb per benchmark; systems and commits alternate, and ratios have their spread."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.base.own_python import use_own_python

use_own_python()

from benchmarks.shared.results import chosen_cases, measure, write_result
from benchmarks.shared.tables import machine_line, table
from benchmarks.shared.verbs import parse
from fairseq_ext.base.errors import run_command


def main() -> None:
    options, words = parse(), sys.argv[1:]
    if getattr(options, "list", False):
        print(*(case.name for case in chosen_cases(options)), sep="\n")
        return
    result = measure(options, words)
    if options.json is not None:
        write_result(options.json, result)
    if "series" in result:
        print(f"{machine_line(result)}\n\n{table(result)}", end="")
    else:
        print(json.dumps(result["found"] | result["machine"], indent=1, ensure_ascii=False))


if __name__ == "__main__":
    run_command(main)
