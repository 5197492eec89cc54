"""Commands and whole runs, killed again and again: the same result, no orphan, and no lock that is held."""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
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
CHILD_9, CHILD_15, COMMAND_9, COMMAND_15 = ((child, number) for child in (True, False) for number in (9, 15))
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
    verb("prepare")([str(path), "--workers", "1"])
    verb("teacher")([str(path)])
    verb("train")([str(path), "mix"])
    verb("translate")([str(path)])
    verb("score")([str(path)])
    return path.parent / "work"


@pytest.fixture(scope="module")
def killed(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment that is killed; its data is prepared."""
    path = write_experiment(tmp_path_factory.mktemp("killed") / "experiment")
    shutil.copytree(whole, path.parent / "work", ignore=lambda *_: {"systems", "translations", "scores"})
    return path


def command(name: str, path: Path, *arguments: str) -> list[str]:
    return [PYTHON, "-c", BEGIN, sys.executable, name, str(path), *arguments]


@dataclass(frozen=True)
class Kill:
    """One kill: which process gets which signal, so many seconds after its step was begun, now or by an earlier run."""

    of_child: bool
    number: int
    seconds: float


def kills(longest: float, *kinds: tuple[bool, int]) -> list[Kill]:
    """These kinds of kills, each of a child or not and with a signal, at random moments."""
    generator = random.Random(7)
    return [Kill(*kind, generator.uniform(0, longest)) for kind in KILLS * kinds]


def kill_again_and_again(run: list[str], output: Path, planned: list[Kill], file: str = "") -> None:
    """Start a command, kill it after its step has made a file, look what is left, and so on; at last let it end."""
    begun = output.with_name(f".{output.name}.step") / "unfinished" / file
    for count, kill in enumerate(planned):
        process = subprocess.Popen(run, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not begun.exists():
            time.sleep(0.005)
        try:
            process.wait(kill.seconds)
        except subprocess.TimeoutExpired:
            send(kill, process)
        _, errors = process.communicate(timeout=SECONDS)
        assert "Traceback" not in errors or kill.of_child, errors
        if process.returncode == 0:
            print(f"{output.name}: had ended after {count} kills")
            assert output.is_dir()
            return
        check_status(kill, process.returncode, errors.rstrip().splitlines()[-1:])
        check_nothing_is_left(output.parents[2])
    subprocess.run(run, cwd=ROOT, check=True, capture_output=True, timeout=SECONDS)


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


def kill_run(run: list[str], folder: Path, planned: list[Kill]) -> list[Kill]:
    """Start a run and kill it at the moments planned, until it ends; returns the kills that are left, now earlier."""
    for number, kill in enumerate(planned):
        process = subprocess.Popen(run, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            process.wait(kill.seconds)
        except subprocess.TimeoutExpired:
            send(kill, process)
        _, errors = process.communicate(timeout=SECONDS)
        print(f"{kill}: status {process.returncode}, {(errors.rstrip().splitlines() or ['nothing said'])[-1]}")
        assert process.returncode in ({0, 1} if kill.of_child else {0, -kill.number, 128 + kill.number}), errors
        if process.returncode == 1:
            assert "run the same command again" in errors.splitlines()[-1], errors
        check_nothing_is_left(folder)
        if process.returncode == 0:
            return [replace(each, seconds=each.seconds / 2) for each in planned[number:]]
    subprocess.run(run, cwd=ROOT, check=True, capture_output=True, timeout=SECONDS)
    return []


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_whole_run_ends_with_the_same_results(tmp_path: Path, jobs: str) -> None:
    whole = write_experiment(tmp_path / "whole" / "experiment")
    start = time.monotonic()
    subprocess.run(command("run", whole, "--jobs", jobs), cwd=ROOT, check=True, capture_output=True, timeout=SECONDS)
    planned = kills(time.monotonic() - start, CHILD_9, CHILD_15, COMMAND_9, COMMAND_15)
    random.Random(3).shuffle(planned)
    numbers = itertools.count()
    while planned:
        path = write_experiment(tmp_path / f"run{next(numbers)}" / "experiment")
        planned = kill_run(command("run", path, "--jobs", jobs), path.parent, planned)
        check_results(path.parent / "work", whole.parent / "work")


def test_a_training_ends_with_the_same_weights(killed: Path, whole: Path) -> None:
    output = killed.parent / "work/systems/mix"
    planned = kills(0.5, CHILD_9, COMMAND_15)
    kill_again_and_again(command("train", killed, "mix"), output, planned, "checkpoint_last.pt")
    ours, expected = (weights(folder / "checkpoint_last.pt") for folder in (output, whole / "systems/mix"))
    assert ours.keys() == expected.keys()
    assert all(torch.equal(ours[name], value) for name, value in expected.items())


def test_translations_are_the_same(killed: Path, whole: Path) -> None:
    output = killed.parent / "work/translations/mix"
    kill_again_and_again(command("translate", killed), output, kills(0.8, CHILD_15))
    for name in ("bank.de", "garden.de"):
        assert (output / name).read_bytes() == (whole / "translations/mix" / name).read_bytes()


def test_scores_are_the_same(killed: Path, whole: Path) -> None:
    output = killed.parent / "work/scores"
    kill_again_and_again(command("score", killed), output, kills(1, COMMAND_9, COMMAND_15))
    assert (output / "records.jsonl").read_bytes() == (whole / "scores/records.jsonl").read_bytes()
