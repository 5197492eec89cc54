"""Processes that end with the one that starts them, on Linux also if that is killed.

Also run as a program, ``python children.py PARENT COMMAND…``, which becomes the command; it imports nothing of this
package, which fairseq wants to import itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from subprocess import PIPE
from typing import Any

_PR_SET_PDEATHSIG = 1
GO_ON = "nothing finished is lost: run the same command again"


def run_child(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess:
    """``subprocess.run`` without a check, of a command that is killed when this thread ends before it."""
    return subprocess.run([*_wrapper(), *command], check=False, **options)


def start_child(command: Sequence[str], **options: Any) -> subprocess.Popen:
    """Start a command like :func:`run_child`, with pipes of bytes to and from it."""
    return subprocess.Popen([*_wrapper(), *command], stdin=PIPE, stdout=PIPE, stderr=PIPE, **options)


def _wrapper() -> list[str]:
    return [sys.executable, "-I", "-S", __file__, str(os.getpid())]


def how_it_ended(status: int) -> str:
    """What to say of a child that failed."""
    if status < 0:
        return f"was killed (signal {-status}; out of memory?); {GO_ON}"
    return f"ended with status {status}; the reason is above"


def end_with_parent(parent: int) -> None:
    """Let this process be killed when its parent, of this number, ends, also when that is killed; on Linux only."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
