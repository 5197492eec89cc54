"""Run all checks that need a GPU: the tests marked gpu, training and translating at the paper's size, in one table.

Run by ``tools/check_gpu.sh``, in under 15 minutes. Training: MIX, AD and GAD in float32 and float16, on one GPU and,
if there are several, on all. Translating: the same systems, and GAD with the best two adapters; with kernels of a
decoding step, synchronising operators, how often the host waited for the GPU, and GPU memory.
``--cpu`` runs everything on the CPU with tiny models, to test the script.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from benchmarks.shared import results
from benchmarks.shared.tables import machine_line, table
from benchmarks.shared.verbs import parse
from fairseq_ext.base.errors import InputError, run_command

_MARK = "mark.gpu"
# Time limits of the parts in seconds: less than 15 minutes in total.
_LIMITS = {"tests": 180, "train": 420, "decode": 240}
_SYSTEMS = ["MIX", "AD", "GAD"]
_PAPER = "--size paper --vocabulary 32000"


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/check_gpu.sh", description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="test the script without a GPU, with tiny models")
    parser.add_argument("--results", type=Path, default=ROOT / "runs" / "gpu", help="folder for tables and JSON files")
    parser.add_argument("--verb", choices=["train", "decode"], help=argparse.SUPPRESS)  # the part to run
    options = parser.parse_args()
    gpus = gpu_names()
    if not gpus and not options.cpu:
        raise InputError("torch finds no GPU here; to test the script itself, run tools/check_gpu.sh --cpu")
    if options.verb:
        measure(options.verb, len(gpus), options)
        return
    options.results.mkdir(parents=True, exist_ok=True)
    page = options.results / "table.md"
    page.write_text(f"# {', '.join(gpus) or 'no GPU: test on the processor'}\n", encoding="utf-8")
    for part in _LIMITS:
        start = time.monotonic()
        text = run_tests(options.cpu) if part == "tests" else run_part(part, options)
        # Write each part at once, in case time runs out.
        with page.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}\n{part} took {time.monotonic() - start:.0f} s\n")
    print(page.read_text(encoding="utf-8"))
    if missing := [verb for verb in ("train", "decode") if not (options.results / f"{verb}.md").exists()]:
        raise InputError(f"{' and '.join(missing)} could not be measured; see the messages above")


def gpu_names() -> list[str]:
    """Return the names of the GPUs that torch sees."""
    import torch

    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def run_tests(is_trial: bool) -> str:
    """Run the tests marked gpu, and return a one-line summary."""
    files = sorted({str(path) for path in (ROOT / "tests").rglob("test_*.py") if _MARK in path.read_text("utf-8")})
    if is_trial:
        return f"Tests: {len(files)} file(s) with tests marked gpu, skipped without a GPU\n"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *files]
    done = _run(command, "tests", capture_output=True)
    lines = (done.stdout or "").strip().splitlines() if done else ["took too long"]
    return f"Tests: {lines[-1] if lines else 'no answer'}\n"


def run_part(verb: str, options: argparse.Namespace) -> str:
    """Return the table of a part, or the reason for failure; errors are printed to stderr."""
    table_file = options.results / f"{verb}.md"
    table_file.unlink(missing_ok=True)
    words = ["--verb", verb, "--results", str(options.results), *(["--cpu"] if options.cpu else [])]
    start = time.monotonic()
    done = _run([sys.executable, __file__, *words], verb)
    text = table_file.read_text(encoding="utf-8") if table_file.exists() else ""
    if done and not done.returncode:
        return text
    why = f"ended with status {done.returncode}" if done else f"took more than {time.monotonic() - start:.0f} s"
    return f"{text}\n{verb}: {why}\n"


def measure(verb: str, num_gpus: int, options: argparse.Namespace) -> None:
    """Run one verb of the benchmark; write its table and JSON to the results folder, after each system that trains."""
    baselines: dict[str, Any] = {}
    series: list[Any] = []
    for words in command_lines(verb, num_gpus, options.cpu):
        result = results.measure(parse(words), words)
        baselines |= result["baselines"]
        series += result["series"]
        result |= {"baselines": baselines, "series": series}
        results.write_result(options.results / f"{verb}.json", result)
        text = f"## {verb}\n\n{machine_line(result)}.\n\n{table(result)}"
        (options.results / f"{verb}.md").write_text(text, encoding="utf-8")


def command_lines(verb: str, num_gpus: int, is_trial: bool) -> list[list[str]]:
    """Return the benchmark's command lines for a verb: one for each system that trains."""
    words = [verb, *arguments(verb, num_gpus, is_trial).split()]
    return [[*words, "--systems", system] for system in _SYSTEMS] if verb == "train" else [words]


def arguments(verb: str, num_gpus: int, is_trial: bool) -> str:
    """Return options of the benchmark's verb."""
    if verb == "train":
        common = "--rounds 1"
        if is_trial:
            return f"{common} --sizes tiny --precisions float32 --processes 1 --threads 1 --sentences 600 --updates 1"
        count = f"1 {num_gpus}" if num_gpus > 1 else "1"
        size = "--sizes paper --max-tokens 16384 --updates 60 --sentences 60000 --num-workers 4"
        return f"{common} {size} --device cuda --precisions float32 float16 --processes {count}"
    if is_trial:
        return "--size tiny --vocabulary 1000 --sentences 4 --tokens 4 --rounds 1 --top 2 --precisions float32 bfloat16"
    return f"{_PAPER} --device cuda --sentences 256 --tokens 32 --rounds 1 --top 2 --precisions float32 float16"


def _run(command: list[str], part: str, **options: Any) -> subprocess.CompletedProcess[str] | None:
    """Run a part; return None on a timeout."""
    try:
        return subprocess.run(command, cwd=ROOT, text=True, timeout=_LIMITS[part], check=False, **options)
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    run_command(main)
