"""A whole run whose processes are killed says so in one line, leaves none behind, and can be gone on with.

That it ends with the same results is tested where a cluster's processes are killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.engine.test_children import wait_until_gone
from tests.fork_server import PYTHON
from tests.recipes.translation.small_translation_experiment import TRANSLATE
from tests.small_corpus import write_config, write_corpora
from tests.waiting import SECONDS, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes below /proc"),
]
ROOT = Path(__file__).resolve().parents[2]
# num-workers: processes that load data are grandchildren, and must go, too.
OPTIONS = {"optimizer": "adam", "lr": 0.01, "max-tokens": 400, "max-epoch": 6, "cpu": True, "num-workers": 1}
MIX = {"arch": "transformer_tiny", "criterion": "label_smoothed_cross_entropy", "share-all-embeddings": True}
OUTPUTS = {"common": TRANSLATE["common"], "outputs": {"mix": {"system": "mix"}}}
# What is killed are processes of their own; the commands of fairseq's that they start are forked.
BEGIN = "import sys; sys.executable = sys.argv.pop(1); from fairseq_ext.cli.main import main; main()"


def write_experiment(folder: Path) -> Path:
    corpora = write_corpora(folder / "corpora")
    return write_config(
        folder / "tiny.yaml", corpora, train={"common": OPTIONS, "systems": {"mix": MIX}}, translate=OUTPUTS
    )


def children_of(process: subprocess.Popen) -> list[int]:
    numbers: list[int] = []
    for task in Path(f"/proc/{process.pid}/task").iterdir():  # threads start children, too
        numbers += map(int, (task / "children").read_text().split())
    return numbers


def test_a_run_whose_training_is_killed_says_so_and_goes_on(tmp_path: Path) -> None:
    path = write_experiment(tmp_path)
    work = path.parent / "work"
    command = [PYTHON, "-c", BEGIN, sys.executable, "run", str(path), "--to", "score"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    checkpoint = work / "systems/.mix.step/unfinished/checkpoint_last.pt"
    wait_until(lambda: checkpoint.exists() or process.poll() is not None, "nothing was trained")
    children = children_of(process) if process.poll() is None else []
    with suppress(ProcessLookupError):  # it came to its end first
        for child in children[-1:]:
            os.kill(child, signal.SIGKILL)
    _, errors = process.communicate(timeout=SECONDS)
    wait_until_gone(children)
    if process.returncode != 0:
        assert process.returncode == 1
        assert "was killed (signal 9" in errors.splitlines()[-1]
        assert "run the same command again" in errors.splitlines()[-1]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=SECONDS)
    assert (work / "scores/records.jsonl").is_file()
