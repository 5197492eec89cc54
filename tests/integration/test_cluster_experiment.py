"""A whole experiment on a cluster: the results of one machine, also when workers and the command are killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cluster import dask_cluster
from tests.engine.test_children import is_running, wait_until_gone
from tests.integration.test_command_lines import weights
from tests.recipes.translation.small_translation_experiment import OUTPUTS, TRAIN, TRANSLATE
from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb
from tests.waiting import SECONDS, wait_until

pytest.importorskip("distributed", reason="needs the package distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes below /proc"),
]
ROOT = Path(__file__).resolve().parents[2]
TWO_PROCESSES = {"distributed-backend": "gloo", "ddp-backend": "legacy_ddp"}
# Two seeds, and epochs enough to be killed in.
FEW = {
    "common": TRAIN["common"],
    "systems": {
        "mix": {**TRAIN["systems"]["mix"], "max-epoch": 12},
        "ad": TRAIN["systems"]["ad"],
        "gad": TRAIN["systems"]["gad"],
    },
}
TRAINED = {"mix", "ad@1", "ad@2", "gad"}
SEARCHES = {"common": TRANSLATE["common"], "outputs": {name: OUTPUTS[name] for name in ("ad-classifier", "gad")}}


def write_experiment(folder: Path, train: dict[str, Any] = FEW) -> Path:
    path = folder / "my.yaml"
    return write_config(path, write_corpora(folder / "corpora"), train=train, translate=SEARCHES)


def start(path: Path, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "fairseq_ext.cli", "run", str(path), "--to", "score", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def results(path: Path) -> dict[str, bytes]:
    """Translations and scores by relative name."""
    work = path.parent / "work"
    files = [*work.glob("translations/*/*.de"), *work.glob("translations/*/gates.jsonl"), work / "scores/records.jsonl"]
    return {file.relative_to(work).as_posix(): file.read_bytes() for file in files}


def assert_same_weights(path: Path, other: Path, names: set[str]) -> None:
    for name in names:
        mine, others = (weights(each.parent / "work/systems" / name / "checkpoint_best.pt") for each in (path, other))
        assert mine.keys() == others.keys()
        assert all(torch.equal(mine[key], others[key]) for key in mine)


def commands_below(process: int) -> Iterator[tuple[int, str]]:
    """The processes that one has started, directly or not, with their command lines."""
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            yield child, Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
            yield from commands_below(child)


def does(worker: int, tool: str) -> bool:
    try:
        return any(f"fairseq_ext.tool {tool} " in line for _, line in commands_below(worker))
    except (FileNotFoundError, ProcessLookupError):  # one has ended meanwhile
        return False


def wait_for_one_that(tool: str, workers: list[int]) -> int:
    """The first worker that trains or translates."""
    wait_until(lambda: any(does(worker, tool) for worker in workers), f"no worker began to {tool}", every=0.1)
    return next(worker for worker in workers if does(worker, tool))


def kill_when_it(tool: str, workers: list[int]) -> None:
    victim = wait_for_one_that(tool, workers)
    below = [child for child, _ in commands_below(victim)]
    os.kill(victim, signal.SIGKILL)
    workers.remove(victim)
    wait_until_gone(below)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an experiment that was run on one machine."""
    path = write_experiment(tmp_path_factory.mktemp("whole"))
    verb("run")([str(path), "--to", "score"])
    return path


def test_a_killed_command_leaves_nothing_and_lost_workers_change_nothing(whole: Path, tmp_path: Path) -> None:
    path = write_experiment(tmp_path / "experiment")
    processes: list[int] = []
    with dask_cluster(tmp_path, workers=3, processes=processes) as scheduler:
        workers = processes[1:]
        command = start(path, "--scheduler", str(scheduler))
        wait_for_one_that("train", workers)
        below = [child for worker in workers for child, _ in commands_below(worker)]
        command.kill()
        command.communicate()
        wait_until_gone(below)
        assert all(is_running(process) for process in processes)

        command = start(path, "--scheduler", str(scheduler))
        kill_when_it("train", workers)
        kill_when_it("generate", workers)
        _, messages = command.communicate(timeout=SECONDS * 3)
        assert command.returncode == 0, messages[-3000:]
        assert "gad: done" in messages
    assert results(path) == results(whole)
    assert {file.parent.name for file in path.parent.glob("work/systems/*/step.json")} == TRAINED
    assert_same_weights(path, whole, TRAINED)


def job_script(option: str) -> str:
    """The job script of the page on clusters that has an option: ``--scheduler`` or ``--only``."""
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    [script] = [block for block in blocks if "#SBATCH" in block and f" {option} " in block]
    return script


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Slurm cluster of this machine."""
    for program in ("munged", "slurmctld", "slurmd"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            pytest.skip(f"needs {program} of Debian's slurm-wlm and munge")
    script, folder = ROOT / "scripts" / "slurm_cluster.sh", tmp_path_factory.mktemp("slurm")
    told = subprocess.run([script, "start", folder], capture_output=True, text=True, check=True).stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*told.removeprefix("export ").strip().split("="))
        yield
        subprocess.run([script, "stop", folder], check=True)
    assert not folder.exists()


def project(folder: Path, train: dict[str, Any] = FEW) -> Path:
    """A folder to work in as the page says; returns its ``my.yaml``."""
    path = write_experiment(folder, train)
    for name in (".venv", "fairseq_ext"):
        (folder / name).symlink_to(ROOT / name)
    return path


def submit(script: str, path: Path, *options: str) -> str:
    """Submit a job; returns its number."""
    job = path.with_name("job.sh")
    job.write_text(script)
    command = ["sbatch", "--parsable", "--chdir", str(path.parent), "--output=%j.log", *options, str(job)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def state_at_the_end(number: str, path: Path) -> str:
    """The state in which a job ends."""

    def state() -> str:
        shown = subprocess.run(["scontrol", "show", "job", number], capture_output=True, text=True, check=True).stdout
        return re.findall(r"JobState=(\w+)", shown)[0]

    deadline = time.monotonic() + SECONDS * 3
    while (now := state()) in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING") and time.monotonic() < deadline:
        time.sleep(0.5)
    log = path.with_name(f"{number}.log")
    assert now in ("COMPLETED", "TIMEOUT"), log.read_text()[-3000:] if log.exists() else now
    return now


def stop_training_and_time(number: str, path: Path) -> None:
    """When a training has a checkpoint, let it stand still until its job's time is over, which is now."""
    kept = path.parent / "work/systems/.mix.step/unfinished/checkpoint_last.pt"
    wait_until(kept.exists, "no training began", every=0.1)
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if b"train" in line.split(b"\0") and str(path.parent).encode() in line:
                os.kill(int(entry.name), signal.SIGSTOP)
    # Slurm gives times in minutes; of a job that runs, the end may be brought forward to any second.
    soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 2))
    subprocess.run(["scontrol", "update", f"JobId={number}", f"EndTime={soon}"], check=True)


def test_a_job_out_of_time_is_submitted_again(whole: Path, slurm: None, tmp_path: Path) -> None:
    path = project(tmp_path / "experiment")
    script = job_script("--scheduler").replace("run my.yaml", "run my.yaml --to mix")
    tasks = ["--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1"]
    first = submit(script, path, *tasks, "--time=5")
    stop_training_and_time(first, path)
    assert state_at_the_end(first, path) == "TIMEOUT"
    assert not (path.parent / "work/systems/mix").exists()
    again = submit(script, path, *tasks)
    assert state_at_the_end(again, path) == "COMPLETED"
    assert "mix: continuing" in (path.parent / f"{again}.log").read_text()
    assert_same_weights(path, whole, {"mix"})


def test_one_training_by_srun(slurm: None, tmp_path: Path) -> None:
    path = project(tmp_path / "experiment", {**FEW, "common": {**TRAIN["common"], **TWO_PROCESSES}})
    verb("prepare")([str(path), "--workers", "1"])
    training = job_script("--only").replace(" --gpus-per-task=1", "").replace("gad", "mix")
    number = submit(training, path, "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1")
    assert state_at_the_end(number, path) == "COMPLETED"
    log = (path.parent / "work/systems/mix/train.log").read_text()
    assert "distributed_world_size': 2" in log
