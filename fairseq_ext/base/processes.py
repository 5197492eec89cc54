"""Multiple processes that run one command together, started by torchrun or Slurm's srun.

They train together; the first process does everything else, and the other processes wait for it. If one fails, the
launcher must end the rest: torchrun does, srun with ``--kill-on-bad-exit``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairseq_ext.base.fairseq_cli import options_in

# First the rank of the process, then the number of processes.
_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# srun sets both. A batch script itself is one process, without SLURM_STEP_NUM_TASKS.
_SRUN = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
_PORTS = range(20_000, 60_000)


@dataclass(frozen=True)
class Processes:
    """The processes that run this command; ``rank`` is the number of this process, from 0."""

    rank: int = 0
    count: int = 1
    # ``torchrun`` or ``srun``; None for a single process.
    launcher: str | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process builds the outputs."""
        return self.rank == 0


def this_process(environment: Mapping[str, str] = os.environ) -> Processes:
    """Return the rank and count of processes that the launcher set."""
    for launcher, names in (("torchrun", _TORCHRUN), ("srun", _SRUN)):
        if all(name in environment for name in names):
            rank, count = (int(environment[name]) for name in names[:2])
            if count > 1:
                return Processes(rank, count, launcher)
    return Processes()


def without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the launcher's variables, such as for a step on a worker under srun."""
    return {name: value for name, value in environment.items() if name not in (*_TORCHRUN, *_SRUN)}


def distributed_arguments(given: Sequence[str], environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return fairseq-train's options for distributed training in these processes; an empty list for a single process.

    fairseq detects them itself only on some machines: not with one GPU each, nor on CPUs. Options given by the user are
    not repeated.
    """
    processes = this_process(environment)
    if processes.launcher == "torchrun":
        # The store of torchrun, at its port, still holds keys of the previous training run; see run_fairseq.
        address = f"{environment['MASTER_ADDR']}:{int(environment['MASTER_PORT']) + 1}"
        device = environment.get("LOCAL_RANK", "0")
    elif processes.launcher == "srun":
        # All processes must compute the same port without communicating.
        port = dict(options_in(given)).get("distributed-port") or _PORTS[int(environment["SLURM_JOB_ID"]) % len(_PORTS)]
        address = f"{_first_host(environment['SLURM_STEP_NODELIST'])}:{port}"
        # With --gpus-per-task, each process sees only its own GPU.
        visible = environment.get("CUDA_VISIBLE_DEVICES", "").count(",") + 1
        device = str(int(environment["SLURM_LOCALID"]) % visible)
    else:
        return []
    options = {
        "--distributed-world-size": str(processes.count),
        "--distributed-rank": str(processes.rank),
        "--distributed-init-method": f"tcp://{address}",
        "--device-id": device,
    }
    arguments = [part for name, value in options.items() if name not in given for part in (name, value)]
    return [*arguments, *({"--distributed-no-spawn"} - {*given})]


def _first_host(nodes: str) -> str:
    """Return the first host in Slurm's node list, such as ``gpu[03-07]``."""
    command = ["scontrol", "show", "hostnames", nodes]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]


def cores() -> int:
    """Return the number of cores available to this process, which a container, Slurm or taskset may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
