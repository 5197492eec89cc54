"""A whole experiment on a cluster: the results of one machine, also when a worker and the command are killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.cluster import dask_cluster
from tests.experiments.translation.small_translation_experiment import OUTPUTS, TRAIN, TRANSLATE
from tests.integration.test_command_lines import weights
from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb
from tests.waiting import SECONDS, is_running, wait_until, wait_until_gone

pytest.importorskip("distributed", reason="needs the package distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes below /proc"),
]
ROOT = Path(__file__).resolve().parents[2]
# Epochs enough to be killed in.
MIX, GAD = {**TRAIN["systems"]["mix"], "max-epoch": 8}, {**TRAIN["systems"]["gad"], "from": "mix"}
SECTIONS = {
    "train": {"common": TRAIN["common"], "systems": {"mix": MIX, "gad": GAD}},
    "translate": {"common": TRANSLATE["common"], "outputs": {"gad": OUTPUTS["gad"]}},
}


def write_experiment(folder: Path) -> Path:
    return write_config(folder / "my.yaml", write_corpora(folder / "corpora"), **SECTIONS)


def start(path: Path, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "fairseq_ext.cli", "run", str(path), "--to", "score", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def results(path: Path) -> dict[str, bytes]:
    """Translations and scores by relative name."""
    work = path.parent / "work"
    files = [*work.glob("translations/*/*.de"), *work.glob("translations/*/gates.jsonl"), work / "scores/records.jsonl"]
    return {file.relative_to(work).as_posix(): file.read_bytes() for file in files}


def commands_below(process: int) -> Iterator[tuple[int, str]]:
    """The processes that one has started, directly or not, with their command lines."""
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            yield child, Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
            yield from commands_below(child)


def one_that_trains(workers: list[int]) -> int:
    """The first worker that does."""

    def trains(worker: int) -> bool:
        try:
            return any("fairseq_ext.tool train " in line for _, line in commands_below(worker))
        except (FileNotFoundError, ProcessLookupError):  # one has ended meanwhile
            return False

    found: list[int] = []

    def has_found() -> bool:
        found.extend(filter(trains, workers))
        return bool(found)

    wait_until(has_found, "no worker began to train", every=0.1)
    return found[0]


def test_a_killed_command_leaves_nothing_and_a_lost_worker_changes_nothing(tmp_path: Path) -> None:
    whole, path = (write_experiment(tmp_path / name) for name in ("whole", "experiment"))
    verb("run")([str(whole), "--to", "score"])
    processes: list[int] = []
    with dask_cluster(tmp_path, workers=2, processes=processes) as scheduler:
        workers = processes[1:]
        command = start(path, "--scheduler", str(scheduler))
        one_that_trains(workers)
        below = [child for worker in workers for child, _ in commands_below(worker)]
        command.kill()
        command.communicate()
        wait_until_gone(below)
        assert all(is_running(process) for process in processes)

        command = start(path, "--scheduler", str(scheduler))
        victim = one_that_trains(workers)
        below = [child for child, _ in commands_below(victim)]
        os.kill(victim, signal.SIGKILL)
        wait_until_gone(below)
        _, messages = command.communicate(timeout=SECONDS * 3)
        assert command.returncode == 0, messages[-3000:]
        assert "gad: done" in messages
    assert results(path) == results(whole)
    for name in ("mix", "gad"):
        mine, others = (weights(each.parent / "work/systems" / name / "checkpoint_best.pt") for each in (path, whole))
        assert mine.keys() == others.keys()
        assert all(torch.equal(mine[key], others[key]) for key in mine)
