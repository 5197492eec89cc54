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
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cluster import dask_cluster
from tests.engine.test_children import is_running, wait_until_gone
from tests.fork_server import PYTHON
from tests.integration.test_command_lines import weights
from tests.recipes.translation.small_translation_experiment import TRAIN, write_translation_experiment
from tests.verbs import verb
from tests.waiting import SECONDS, wait_until

pytest.importorskip("distributed", reason="needs the package distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes below /proc"),
]
ROOT = Path(__file__).resolve().parents[2]
TWO_PROCESSES = {"distributed-backend": "gloo", "ddp-backend": "legacy_ddp"}
# Three seeds, and epochs enough to be killed in.
FEW = {
    "common": TRAIN["common"],
    "systems": {
        "mix": {**TRAIN["systems"]["mix"], "max-epoch": 30},
        "ad": {**TRAIN["systems"]["ad"], "seeds": [1, 2, 3]},
        "gad": TRAIN["systems"]["gad"],
    },
}


def start(path: Path, *options: str) -> subprocess.Popen:
    command = [PYTHON, "-m", "fairseq_ext.cli", "run", str(path), "--to", "score", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def finish(command: subprocess.Popen) -> str:
    _, messages = command.communicate(timeout=SECONDS * 3)
    assert command.returncode == 0, messages[-3000:]
    return messages


def results(path: Path) -> dict[str, bytes]:
    """Translations and scores by relative name."""
    work = path.parent / "work"
    files = [*work.glob("translations/*/*.de"), *work.glob("translations/*/gates.jsonl"), work / "scores/records.jsonl"]
    return {file.relative_to(work).as_posix(): file.read_bytes() for file in files}


def assert_same(path: Path, other: Path) -> None:
    assert results(path) == results(other)
    names = sorted(file.parent.name for file in other.parent.glob("work/systems/*/step.json"))
    assert len(names) == 1 + 3 + 1
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


def kill_when_it(tool: str, workers: list[int]) -> None:
    """Kill one that trains or translates."""
    wait_until(lambda: any(does(worker, tool) for worker in workers), f"no worker began to {tool}")
    victim = next(worker for worker in workers if does(worker, tool))
    below = [child for child, _ in commands_below(victim)]
    os.kill(victim, signal.SIGKILL)
    workers.remove(victim)
    wait_until_gone(below)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an experiment that was run on one machine."""
    path = write_translation_experiment(tmp_path_factory.mktemp("whole") / "experiment", FEW)
    finish(start(path, "--jobs", "1"))
    return path


def test_lost_workers_change_nothing(whole: Path, tmp_path: Path) -> None:
    path = write_translation_experiment(tmp_path / "experiment", FEW)
    processes: list[int] = []
    with dask_cluster(tmp_path, workers=4, processes=processes) as scheduler:
        command = start(path, "--scheduler", str(scheduler))
        workers = processes[1:]
        kill_when_it("train", workers)
        kill_when_it("generate", workers)
        messages = finish(command)
        assert "gad: done" in messages
        assert "done" not in finish(start(path, "--scheduler", str(scheduler)))
    assert_same(path, whole)


def test_a_killed_command_leaves_nothing_on_its_workers(whole: Path, tmp_path: Path) -> None:
    path = write_translation_experiment(tmp_path / "experiment", FEW)
    processes: list[int] = []
    with dask_cluster(tmp_path, workers=2, processes=processes) as scheduler:
        command = start(path, "--scheduler", str(scheduler))
        wait_until(lambda: any(does(worker, "train") for worker in processes[1:]), "no worker began to train")
        below = [child for worker in processes[1:] for child, _ in commands_below(worker)]
        command.kill()
        command.communicate()
        wait_until_gone(below)
        assert all(is_running(process) for process in processes)
        finish(start(path, "--scheduler", str(scheduler)))
    assert_same(path, whole)


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


def project(folder: Path, systems: dict[str, Any]) -> Path:
    """A folder to work in as the page says; returns its ``my.yaml``."""
    path = write_translation_experiment(folder, systems)
    for name in (".venv", "fairseq_ext"):
        (folder / name).symlink_to(ROOT / name)
    return path.rename(folder / "my.yaml")


def job_ends(script: str, path: Path, *options: str) -> str:
    """Submit a job and return the state in which it ends."""
    job = path.with_name("job.sh")
    job.write_text(script)
    submitted = ["sbatch", "--parsable", "--chdir", str(path.parent), "--output=%j.log", *options, str(job)]
    number = subprocess.run(submitted, capture_output=True, text=True, check=True).stdout.strip()

    def state() -> str:
        shown = subprocess.run(["scontrol", "show", "job", number], capture_output=True, text=True, check=True).stdout
        return re.findall(r"JobState=(\w+)", shown)[0]

    deadline = time.monotonic() + SECONDS * 3
    while (now := state()) in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING") and time.monotonic() < deadline:
        time.sleep(1)
    log = path.with_name(f"{number}.log")
    assert now in ("COMPLETED", "TIMEOUT"), log.read_text()[-3000:] if log.exists() else now
    return now


def test_a_job_out_of_time_is_submitted_again(whole: Path, slurm: None, tmp_path: Path) -> None:
    path = project(tmp_path / "experiment", FEW)
    experiment = job_script("--scheduler").replace("run my.yaml", "run my.yaml --to score")
    tasks = ["--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1"]
    assert job_ends(experiment, path, *tasks, "--time=1") == "TIMEOUT"
    assert job_ends(experiment, path, *tasks) == "COMPLETED"
    assert_same(path, whole)


def test_one_training_by_srun(slurm: None, tmp_path: Path) -> None:
    path = project(tmp_path / "experiment", {**FEW, "common": {**TRAIN["common"], **TWO_PROCESSES}})
    verb("prepare")([str(path), "--workers", "1"])
    training = job_script("--only").replace(" --gpus-per-task=1", "").replace("gad", "mix")
    assert job_ends(training, path, "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1") == "COMPLETED"
    log = (path.parent / "work/systems/mix/train.log").read_text()
    assert "distributed_world_size': 2" in log
