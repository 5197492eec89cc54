"""What only a GPU can show: the tests marked gpu, training and translating at the paper's size, in one table.

Run by ``scripts/check_gpu.sh``, in under 15 minutes. Training: MIX, AD, GAD (dense, and of the best two adapters) in
float32, bfloat16 and float16, on one GPU and, where there are several, on all. Translating: the same systems in
float32 and float16; kernels of a decoding step, operators that synchronise, how often the host waited for the GPU in
it, memory on the GPU.
``--cpu`` does all that on the processor with tiny models, to try the script itself.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from benchmarks.shared import results
from benchmarks.shared.tables import machine_line, table
from benchmarks.shared.verbs import parse
from fairseq_ext.inputs.errors import InputError, run_command

_MARK = "mark.gpu"
# Seconds that each part may take: together less than 15 minutes.
_LIMITS = {"tests": 180, "train": 420, "decode": 240}
_PAPER = "--size paper --vocabulary 32000"


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/check_gpu.sh", description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="try the script without a GPU, with tiny models")
    parser.add_argument("--results", type=Path, default=ROOT / "runs" / "gpu", help="where tables and JSON files go")
    parser.add_argument("--verb", choices=["train", "decode"], help=argparse.SUPPRESS)  # the part of this process
    options = parser.parse_args()
    gpus = gpu_names()
    if not gpus and not options.cpu:
        raise InputError("no GPU that torch can use here; scripts/check_gpu.sh --cpu tries the script itself")
    if options.verb:
        measure(options.verb, len(gpus), options)
        return
    options.results.mkdir(parents=True, exist_ok=True)
    page = options.results / "table.md"
    page.write_text(f"# {', '.join(gpus) or 'no GPU: a trial on the processor'}\n", encoding="utf-8")
    for part in _LIMITS:
        start = time.monotonic()
        text = run_tests(options.cpu) if part == "tests" else run_part(part, options)
        # At once: if time runs out, what is done is there already.
        with page.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}\n{part} took {time.monotonic() - start:.0f} s\n")
    print(page.read_text(encoding="utf-8"))
    if missing := [verb for verb in ("train", "decode") if not (options.results / f"{verb}.md").exists()]:
        raise InputError(f"{' and '.join(missing)} could not be measured; why is above")


def gpu_names() -> list[str]:
    """The GPUs that torch sees."""
    import torch

    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def run_tests(is_trial: bool) -> str:
    """The tests marked gpu, in a line."""
    files = sorted({str(path) for path in (ROOT / "tests").rglob("test_*.py") if _MARK in path.read_text("utf-8")})
    if is_trial:
        return f"Tests: {len(files)} file(s) with tests marked gpu, skipped without a GPU\n"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *files]
    done = _run(command, "tests", capture_output=True)
    lines = (done.stdout or "").strip().splitlines() if done else ["took too long"]
    return f"Tests: {lines[-1] if lines else 'no answer'}\n"


def run_part(verb: str, options: argparse.Namespace) -> str:
    """A table, or why there is none; what failed has said so on stderr."""
    table_file = options.results / f"{verb}.md"
    table_file.unlink(missing_ok=True)
    words = ["--verb", verb, "--results", str(options.results), *(["--cpu"] if options.cpu else [])]
    start = time.monotonic()
    done = _run([sys.executable, __file__, *words], verb)
    if table_file.exists():
        return table_file.read_text(encoding="utf-8")
    why = f"ended with status {done.returncode}" if done else f"took more than {time.monotonic() - start:.0f} s"
    return f"{verb}: {why}\n"


def measure(verb: str, num_gpus: int, options: argparse.Namespace) -> None:
    """One verb of the benchmark; its table and JSON into the folder of results."""
    words = [verb, *arguments(verb, num_gpus, options.cpu).split()]
    result: dict[str, Any] = results.measure(parse(words), words)
    results.write_result(options.results / f"{verb}.json", result)
    text = f"## {verb}\n\n{machine_line(result)}.\n\n{table(result)}"
    (options.results / f"{verb}.md").write_text(text, encoding="utf-8")


def arguments(verb: str, num_gpus: int, is_trial: bool) -> str:
    """Options of the benchmark's verb."""
    if verb == "train":
        common = "--systems MIX AD GAD --top 0 2 --rounds 1"
        if is_trial:
            return f"{common} --sizes tiny --precisions float32 --processes 1 --threads 1 --sentences 600 --updates 1"
        count = f"1 {num_gpus}" if num_gpus > 1 else "1"
        size = "--sizes paper --max-tokens 16384 --updates 60 --sentences 60000 --num-workers 4"
        return f"{common} {size} --device cuda --precisions float32 bfloat16 float16 --processes {count}"
    if is_trial:
        return "--size tiny --vocabulary 1000 --sentences 4 --tokens 4 --rounds 1 --top 2 --precisions float32 bfloat16"
    return f"{_PAPER} --device cuda --sentences 256 --tokens 32 --rounds 1 --top 2 --precisions float32 float16"


def _run(command: list[str], part: str, **options: Any) -> subprocess.CompletedProcess[str] | None:
    """Run a part; None if it took too long."""
    try:
        return subprocess.run(command, cwd=ROOT, text=True, timeout=_LIMITS[part], check=False, **options)
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    run_command(main)
