"""A whole run, killed again and again: the same result, no orphan, and no lock that is held."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from tests.engine.test_children import is_running
from tests.fork_server import PYTHON
from tests.integration.test_command_lines import weights
from tests.recipes.translation.small_translation_experiment import TRANSLATE
from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb
from tests.waiting import SECONDS, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes below /proc"),
]
ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("KILLS", "1"))  # of each kind
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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The work directory of an undisturbed run."""
    path = write_experiment(tmp_path_factory.mktemp("whole") / "experiment")
    verb("run")([str(path), "--to", "score"])
    return path.parent / "work"


@dataclass(frozen=True)
class Kill:
    """One kill: which process gets which signal, so many seconds after a step has made a file, or has begun."""

    step: str
    file: str
    of_child: bool
    number: int
    longest: float


TRAINING = ("systems/mix", "checkpoint_last.pt")
TRANSLATION = ("translations/mix", "")
BY_JOBS = {
    "1": [Kill(*TRAINING, True, 9, 0.5), Kill(*TRANSLATION, False, 15, 0.5)],
    "2": [Kill(*TRAINING, False, 9, 0.5)],
}


def kill_run(run: list[str], work: Path, kill: Kill, seconds: float) -> None:
    """Start a run, kill it so long after its step has come to the place, and look what is left."""
    step = work / kill.step
    begun = step.with_name(f".{step.name}.step") / "unfinished" / kill.file
    process = subprocess.Popen(run, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not begun.exists() and not step.exists():
        time.sleep(0.005)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        send(kill, process)
    _, errors = process.communicate(timeout=SECONDS)
    print(f"{kill}: status {process.returncode}, {(errors.rstrip().splitlines() or ['nothing said'])[-1]}")
    assert "Traceback" not in errors or kill.of_child, errors
    check_status(kill, process.returncode, errors.rstrip().splitlines()[-1:])
    check_nothing_is_left(work.parent)


def send(kill: Kill, process: subprocess.Popen) -> None:
    """Kill the command, or the process that works for it now: the reader of its options, later fairseq."""
    while process.poll() is None:
        try:
            if not kill.of_child:
                os.kill(process.pid, kill.number)
                return
            if children := children_of(process):
                os.kill(children[-1], kill.number)
                return
        except (ProcessLookupError, FileNotFoundError):  # it ended meanwhile
            pass
        time.sleep(0.005)


def children_of(process: subprocess.Popen) -> list[int]:
    """The children that work: all but the watcher of a pool's resources, which is not missed."""
    numbers: list[int] = []
    for task in Path(f"/proc/{process.pid}/task").iterdir():  # threads start children, too
        numbers += map(int, (task / "children").read_text().split())
    return sorted(
        number for number in numbers if b"resource_tracker" not in Path(f"/proc/{number}/cmdline").read_bytes()
    )


def check_status(kill: Kill, status: int, last_line: list[str]) -> None:
    if status == 0:
        return  # it came to its end first
    if kill.of_child:
        assert status == 1
        assert f"was killed (signal {kill.number}" in last_line[0]
        assert "run the same command again" in last_line[0]
    elif kill.number == signal.SIGKILL:
        assert status == -signal.SIGKILL
    else:
        # Before the program has come so far as to mind the signal, it ends by it.
        assert status in (143, -signal.SIGTERM)


def check_nothing_is_left(folder: Path) -> None:
    """No process that works in the folder, and nobody who holds a lock."""
    locks = list(folder.rglob(".*.lock"))
    wait_until(lambda: all(map(is_free, locks)), "a lock is held")
    wait_until(lambda: not processes_in(folder), "a process is left")
    if sys.executable != PYTHON:
        # Forked ones, and what they start, look like the server, which stays.
        wait_until(lambda: len(processes_in(Path(sys.executable).parent)) == 1, "a forked process is left")


def is_free(lock: Path) -> bool:
    with lock.open("r+") as file:  # which gives the lock back
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def processes_in(folder: Path) -> list[int]:
    """The processes in whose command line the folder is."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [process for process in found if is_running(process)]


def check_results(work: Path, whole: Path) -> None:
    """The weights, translations and scores of an undisturbed run."""
    ours, expected = (weights(folder / "systems/mix/checkpoint_last.pt") for folder in (work, whole))
    assert ours.keys() == expected.keys()
    assert all(torch.equal(ours[name], value) for name, value in expected.items())
    for name in ("translations/mix/bank.de", "translations/mix/garden.de", "scores/records.jsonl"):
        assert (work / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize("jobs", BY_JOBS)
def test_a_whole_run_ends_with_the_same_results(whole: Path, tmp_path: Path, jobs: str) -> None:
    path, generator = write_experiment(tmp_path / "experiment"), random.Random(7)
    run = [PYTHON, "-c", BEGIN, sys.executable, "run", str(path), "--to", "score", "--jobs", jobs]
    for kill in BY_JOBS[jobs]:
        for _ in range(KILLS):
            kill_run(run, path.parent / "work", kill, generator.uniform(0, kill.longest))
    subprocess.run(run, cwd=ROOT, check=True, capture_output=True, timeout=SECONDS)
    check_results(path.parent / "work", whole)
