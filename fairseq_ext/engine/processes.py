"""Several processes that run one command together, as torchrun and Slurm's srun start them.

Training is what they share; everything else is done by the first of them, and the others wait for it. If one fails
the launcher must end the rest: torchrun does, srun with ``--kill-on-bad-exit``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairseq_ext.engine.fairseq_cli import options_in

# First the number of the process, then how many there are.
_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# srun sets both; in a batch script outside of it there is one process, and SLURM_STEP_NUM_TASKS is missing.
_SRUN = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
_PORTS = range(20_000, 60_000)


@dataclass(frozen=True)
class Processes:
    """The processes of this command, as this one, number ``rank`` from 0, sees them."""

    rank: int = 0
    count: int = 1
    # ``torchrun`` or ``srun``.
    launcher: str | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process owns what is built."""
        return self.rank == 0


def this_process(environment: Mapping[str, str] = os.environ) -> Processes:
    """What the launcher says of this process."""
    for launcher, names in (("torchrun", _TORCHRUN), ("srun", _SRUN)):
        if all(name in environment for name in names):
            rank, count = (int(environment[name]) for name in names[:2])
            if count > 1:
                return Processes(rank, count, launcher)
    return Processes()


def without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a program that is none of the launcher's processes, such as a step on a worker under srun."""
    return {name: value for name, value in environment.items() if name not in (*_TORCHRUN, *_SRUN)}


def distributed_arguments(given: Sequence[str], environment: Mapping[str, str] = os.environ) -> list[str]:
    """fairseq-train's options for training in these processes together; none where there is one.

    fairseq finds them by itself on some machines: not with one GPU each, nor on CPUs. What the user has given is not
    repeated.
    """
    processes = this_process(environment)
    if processes.launcher == "torchrun":
        # torchrun's own store, at its port, still holds the keys of a training before; see run_fairseq.
        address = f"{environment['MASTER_ADDR']}:{int(environment['MASTER_PORT']) + 1}"
        device = environment.get("LOCAL_RANK", "0")
    elif processes.launcher == "srun":
        # Every process must come to the same port without asking the others.
        port = dict(options_in(given)).get("distributed-port") or _PORTS[int(environment["SLURM_JOB_ID"]) % len(_PORTS)]
        address = f"{_first_host(environment['SLURM_STEP_NODELIST'])}:{port}"
        # With --gpus-per-task each process sees its own GPU alone.
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
    """The first of Slurm's list of nodes, such as ``gpu[03-07]``."""
    command = ["scontrol", "show", "hostnames", nodes]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]


def cores() -> int:
    """How many this process may use: a container, Slurm or taskset may leave it some of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
