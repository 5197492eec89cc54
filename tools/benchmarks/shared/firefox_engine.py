"""Translate the lines of standard input with Firefox's engine, and print translations and seconds as JSON.

It runs in a Python 3.10 with the package `bergamot`, of which only the compiled part is loaded: the rest downloads
models. Nothing of this project is imported.

    python3.10 firefox_engine.py FOLDER THREADS < text
"""

import importlib.util
import json
import sys
import time
import types
from pathlib import Path
from typing import Any

OPTIONS = """
models: [{model}]
vocabs: [{vocabulary}, {vocabulary}]
shortlist: [{shortlist}, false]
beam-size: 1
normalize: 1.0
word-penalty: 0
max-length-break: 128
mini-batch-words: 1024
workspace: 128
max-length-factor: 2.0
skip-cost: true
cpu-threads: 0
quiet: true
quiet-translation: true
gemm-precision: {precision}
alignment: soft
"""


def load_engine() -> Any:
    """Return the compiled module."""
    [folder] = [Path(path) / "bergamot" for path in sys.path if (Path(path) / "bergamot").is_dir()]
    package = types.ModuleType("bergamot")
    package.__path__ = [str(folder)]
    sys.modules["bergamot"] = package
    [library] = folder.glob("_bergamot*.so")
    spec = importlib.util.spec_from_file_location("bergamot._bergamot", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def only(folder: Path, pattern: str) -> Path:
    """Return the only file that matches."""
    [found] = folder.glob(pattern)
    return found.resolve()


def main() -> None:
    folder, threads = Path(sys.argv[1]), int(sys.argv[2])
    engine = load_engine()
    model = only(folder, "model.*.bin")
    files = {"model": model, "vocabulary": only(folder, "*.spm"), "shortlist": only(folder, "lex.*.bin")}
    precision = "int8shiftAlphaAll" if "alphas" in model.name else "int8shiftAll"
    service = engine.Service(engine.ServiceConfig(numWorkers=threads, logLevel="off"))
    loaded = service.modelFromConfig(OPTIONS.format(precision=precision, **files))
    options = engine.ResponseOptions(alignment=False, qualityScores=False, HTML=False)
    service.translate(loaded, engine.VectorString(["Hello."]), options)
    lines = sys.stdin.read().splitlines()
    cpu, wall = time.process_time(), time.perf_counter()
    found = service.translate(loaded, engine.VectorString(lines), options)
    seconds = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    print(json.dumps({"texts": [each.target.text.strip() for each in found], **seconds}))


if __name__ == "__main__":
    main()
