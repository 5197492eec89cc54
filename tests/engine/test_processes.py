"""Which process this is, and what fairseq-train has to be told of it."""

from fairseq_ext.engine.processes import Processes, distributed_arguments, this_process

TORCHRUN = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "first", "MASTER_PORT": "29500"}
SRUN = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "70123"}


def test_launchers_are_recognised() -> None:
    assert this_process({}) == Processes()
    assert this_process({}).is_first
    assert this_process(TORCHRUN) == Processes(3, 4, "torchrun")
    assert this_process(SRUN) == Processes(1, 2, "srun")
    assert not this_process(SRUN).is_first


def test_one_process_is_no_group() -> None:
    assert this_process({**TORCHRUN, "RANK": "0", "WORLD_SIZE": "1"}) == Processes()
    # A batch script outside of srun is one process, however many tasks were asked for.
    assert this_process({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}) == Processes()
    assert distributed_arguments([], {}) == []


def test_fairseq_is_told_where_to_meet() -> None:
    assert distributed_arguments([], TORCHRUN) == [
        "--distributed-world-size", "4", "--distributed-rank", "3", "--distributed-init-method", "tcp://first:29501",
        "--device-id", "1", "--distributed-no-spawn",
    ]  # fmt: skip
    assert distributed_arguments([], SRUN) == ["--distributed-world-size", "2", "--distributed-port", "50123"]


def test_what_the_user_gives_is_not_repeated() -> None:
    given = ["--distributed-port", "5000"]
    assert distributed_arguments(given, SRUN) == ["--distributed-world-size", "2"]
