"""Several processes that run one command together, as torchrun and Slurm's srun start them.

Training is what they share; everything else is done by the first of them, and the others wait for it. If one fails
the launcher must end the rest: torchrun does, srun with ``--kill-on-bad-exit``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# srun sets both; in a batch script outside of it there is one process, and SLURM_STEP_NUM_TASKS is missing.
_SRUN = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
_PORTS = range(20_000, 60_000)


@dataclass(frozen=True)
class Processes:
    """The processes of this command, as this one sees them.

    Attributes:
        rank: its number, from 0.
        count: how many there are.
        launcher: ``torchrun``, ``srun``, or none.
    """

    rank: int = 0
    count: int = 1
    launcher: str | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process owns what is built."""
        return self.rank == 0


def this_process(environment: Mapping[str, str] = os.environ) -> Processes:
    """What the launcher says of this process."""
    for launcher, names, rank, count in (
        ("torchrun", _TORCHRUN, "RANK", "WORLD_SIZE"),
        ("srun", _SRUN, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ):
        if all(name in environment for name in names) and int(environment[count]) > 1:
            return Processes(int(environment[rank]), int(environment[count]), launcher)
    return Processes()


def distributed_arguments(given: Sequence[str], environment: Mapping[str, str] = os.environ) -> list[str]:
    """fairseq-train's options for training in these processes together; none where there is one.

    fairseq finds them by itself on some machines: not with one GPU each, not on CPUs, nor under Slurm without a port.

    Args:
        given: options given by the user, which are not repeated.
        environment: of this process.
    """
    processes = this_process(environment)
    options = {"--distributed-world-size": str(processes.count)}
    if processes.launcher == "torchrun":
        # torchrun's own store, at its port, still holds the keys of a training before; see run_fairseq.
        address = f"{environment['MASTER_ADDR']}:{int(environment['MASTER_PORT']) + 1}"
        options |= {
            "--distributed-rank": str(processes.rank),
            "--distributed-init-method": f"tcp://{address}",
            "--device-id": environment.get("LOCAL_RANK", "0"),
        }
        flags = ["--distributed-no-spawn"]
    elif processes.launcher == "srun":
        # Every process must come to the same port without asking the others.
        job = int(environment.get("SLURM_JOB_ID", "0"))
        options |= {"--distributed-port": str(_PORTS[job % len(_PORTS)])}
        flags = []
    else:
        return []
    return [
        *(part for name, value in options.items() if name not in given for part in (name, value)),
        *(flag for flag in flags if flag not in given),
    ]
