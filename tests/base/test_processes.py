"""Which process this is, and the options of fairseq-train that follow from it."""

import pytest

from fairseq_ext.base import processes
from fairseq_ext.base.processes import Processes, distributed_arguments, this_process, without_launcher

TORCHRUN = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "first", "MASTER_PORT": "29500"}
SRUN = {
    "SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_TASKS": "8", "SLURM_JOB_ID": "70123",
    "SLURM_STEP_NODELIST": "gpu[3-4]", "CUDA_VISIBLE_DEVICES": "0,1,2,3",
}  # fmt: skip


def test_launchers_are_recognised() -> None:
    assert not this_process(SRUN).is_first
    for launcher, found in ((TORCHRUN, Processes(3, 4, "torchrun")), (SRUN, Processes(5, 8, "srun"))):
        assert this_process(launcher) == found
        assert this_process(without_launcher(launcher)) == Processes()  # a step of a worker is alone
    assert this_process({}) == Processes()
    assert this_process({**TORCHRUN, "RANK": "0", "WORLD_SIZE": "1"}) == Processes()
    # A batch script outside of srun is one process, however many tasks were asked for.
    assert this_process({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}) == Processes()
    assert distributed_arguments([], {}) == []


def test_torchrun_gives_fairseq_its_distributed_options() -> None:
    assert distributed_arguments([], TORCHRUN) == [
        "--distributed-world-size", "4", "--distributed-rank", "3", "--distributed-init-method", "tcp://first:29501",
        "--device-id", "1", "--distributed-no-spawn",
    ]  # fmt: skip
    given = ["--distributed-init-method", "tcp://other:1", "--distributed-no-spawn"]
    assert distributed_arguments(given, TORCHRUN)[4:] == ["--device-id", "1"]


def test_slurm_gives_fairseq_its_distributed_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_first_host", lambda nodes: {"gpu[3-4]": "gpu3"}[nodes])
    assert distributed_arguments([], SRUN) == [
        "--distributed-world-size", "8", "--distributed-rank", "5", "--distributed-init-method", "tcp://gpu3:50123",
        "--device-id", "1", "--distributed-no-spawn",
    ]  # fmt: skip
    alone = distributed_arguments(["--distributed-port", "5000"], {**SRUN, "CUDA_VISIBLE_DEVICES": "1"})
    assert alone[5:8] == ["tcp://gpu3:5000", "--device-id", "0"]
