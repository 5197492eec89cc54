"""Child processes that end with their parent; on Linux also when the parent is killed.

This file is also a program: ``python children.py PARENT COMMAND…`` becomes the command. It does not import this
package, because fairseq must import the package itself.
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
GO_ON = "finished work is kept: run the same command again"


def run_child(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess:
    """Run ``subprocess.run`` without a check. The command is killed if this thread ends first."""
    return subprocess.run([*_wrapper(), *command], check=False, **options)


def start_child(command: Sequence[str], **options: Any) -> subprocess.Popen:
    """Start a command like :func:`run_child`, with binary pipes to its input, output and messages."""
    return subprocess.Popen([*_wrapper(), *command], stdin=PIPE, stdout=PIPE, stderr=PIPE, **options)


def _wrapper() -> list[str]:
    return [sys.executable, "-I", "-S", __file__, str(os.getpid())]


def how_it_ended(status: int) -> str:
    """Describe how a failed child process ended."""
    if status < 0:
        return f"was killed (signal {-status}; out of memory?); {GO_ON}"
    return f"ended with status {status}; the reason is above"


def end_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent ends, even if the parent is killed. Linux only.

    Args:
        parent: process ID of the parent.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent has already ended
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
