"""How many cores there are to share, of a machine that others may use too."""

from __future__ import annotations

import os


def cores() -> int:
    """How many this process may use: a container, Slurm or taskset may leave it some of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
