"""The real commands: a mistake in fairseq's options is one line of theirs, before they do anything."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.small_corpus import write_config, write_corpora

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def write_experiment(folder: Path, **options: Any) -> Path:
    """An experiment whose last system has these options."""
    gad = {"from": "mix", "arch": "transformer_gated_adapter_tiny", **options}
    train = {"common": {"lr": 0.1}, "systems": {"mix": {"arch": "transformer_tiny"}, "gad": gad}}
    translate = {"outputs": {"gad": {"system": "gad"}}}
    return write_config(folder / "c.yaml", write_corpora(folder / "corpora"), train=train, translate=translate)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder whose modules must not pass for others."""
    (folder / "fairseq.py").write_text("raise RuntimeError('not me')\n", encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    line = [sys.executable, "-P", *command]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_whole_experiment_ends_before_its_first_step(tmp_path: Path) -> None:
    path = write_experiment(tmp_path, lrr=0.1)
    before = sorted(tmp_path.rglob("*"))
    result = run(tmp_path, "-m", "fairseq_ext.cli", "run", str(path))
    line = f"{path}: train: systems: gad: lrr: fairseq-train has no option 'lrr' here; did you mean 'lr'?\n"
    assert (result.returncode, result.stdout, result.stderr) == (1, "", line)
    assert sorted(set(tmp_path.rglob("*")) - {tmp_path / "fairseq.py"}) == before


def test_what_is_right_is_planned_without_loading_torch(tmp_path: Path) -> None:
    path = write_experiment(tmp_path)
    program = (
        "import sys; from fairseq_ext.cli.main import run_verb; run_verb(sys.argv[1:]); print('torch' in sys.modules)"
    )
    result = run(tmp_path, "-c", program, "run", str(path), "--dry-run")
    assert (result.returncode, result.stderr) == (0, "")
    *_, last_step, loads_torch = result.stdout.splitlines()
    assert (last_step.split()[0], loads_torch) == ("build", "False")
