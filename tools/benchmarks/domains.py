"""Measure systems with many domains, copies of one adapter: attaching them, start, speed and memory.

Texts are translated with one adapter, and each with the next one. Every measurement has a process of its own.
"""

from __future__ import annotations

import resource
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

PRECISIONS = ("float32", "int8")
Figures = dict[str, float]


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("base", type=Path, help="exported system without adapters")
    parser.add_argument("file", type=Path, help="file of an adapter of this base")
    parser.add_argument("text", type=Path, help="file of sentences, one per line")
    parser.add_argument("--numbers", type=int, nargs="+", default=[6, 1000], help="numbers of domains")


def measure(options: Namespace) -> dict[str, Any]:
    figures = {}
    for number in options.numbers:
        with tempfile.TemporaryDirectory() as name:
            system = Path(name) / "system"
            figures[f"{number} domains, attached"] = _alone(_attach, options.base, options.file, number, system)
            for precision in PRECISIONS:
                figures[f"{number} domains, {precision}"] = _alone(_translate, system, precision, options.text)
    return figures


def _alone(function: Callable[..., Figures], *arguments: Any) -> Figures:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def _attach(base: Path, file: Path, number: int, system: Path) -> Figures:
    from fairseq_ext.adapters.adapter_file import read_adapters, write_adapters
    from fairseq_ext.adapters.files import attach_adapters

    one, copies = read_adapters(file), system.with_suffix(".safetensors")
    row = next(iter(one.rows.values()))
    rows = {f"d{place:04}": {key: value.clone() for key, value in row.items()} for place in range(number)}
    write_adapters(copies, replace(one.manifest, domains=tuple(rows), tensors={}), rows, one.shared)
    before, start = _peak(), time.process_time()
    attach_adapters(base, [copies], system)
    seconds, size = round(time.process_time() - start, 1), copies.stat().st_size
    return {"file_mb": size // 10**6, "cpu_seconds": seconds, "peak_mb": _peak(), "peak_mb_before": before}


def _translate(system: Path, precision: str, text: Path) -> Figures:
    from fairseq_ext.serve.runtime.requests import Request
    from fairseq_ext.serve.runtime.translator import SystemTranslator

    translator = SystemTranslator.load(system, decoding_precision=precision)
    domains, lines = translator.domains, text.read_text(encoding="utf-8").splitlines()
    translator.translate([Request(lines[0], domains[0])])
    figures = {"start_cpu_seconds": round(time.process_time(), 2), "start_peak_mb": _peak()}
    for name, routes in (("one", domains[:1]), ("each", domains)):
        requests = [Request(line, routes[place % len(routes)]) for place, line in enumerate(lines)]
        start = time.process_time()
        translator.translate(requests, beam=1, with_gates=False)
        figures[f"{name}_sentences_per_cpu_second"] = round(len(lines) / (time.process_time() - start), 1)
        figures[f"{name}_peak_mb"] = _peak()
    return figures


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
