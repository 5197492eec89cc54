"""Processes that this one starts, and that end with it, however it ends.

Also run as a program, ``python children.py PARENT COMMAND…``, which becomes the command; it imports nothing of this
package, which fairseq wants to import itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from subprocess import PIPE
from typing import Any

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.2


def run_child(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess:
    """``subprocess.run`` without a check, of a command that is killed when this process ends before it.

    On Linux it is killed also when the thread ends that called this.
    """
    return subprocess.run([*_wrapper(), *command], check=False, **options)


def start_child(command: Sequence[str], **options: Any) -> subprocess.Popen:
    """Start a command like :func:`run_child`, with pipes of bytes to and from it."""
    return subprocess.Popen([*_wrapper(), *command], stdin=PIPE, stdout=PIPE, stderr=PIPE, **options)


def _wrapper() -> list[str]:
    return [sys.executable, "-I", "-S", __file__, str(os.getpid())]


def how_it_ended(status: int) -> str:
    """What to say of a child that failed."""
    if status < 0:
        return (
            f"was killed (signal {-status}; out of memory?); nothing finished is lost: run the same command again, "
            "which goes on from here"
        )
    return f"ended with status {status}; the reason is above"


def end_with_parent(parent: int) -> None:
    """Let this process be killed when its parent ends, also when that is killed.

    Args:
        parent: its process number, as the parent itself gave it.
    """
    if not _kernel_ends_it():
        _guard_ends_it(parent)
    if os.getppid() != parent:  # it ended before
        os.kill(os.getpid(), signal.SIGKILL)


def _kernel_ends_it() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    return ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) == 0


def _guard_ends_it(parent: int) -> None:
    """Leave a small process beside this one that watches both."""
    guarded = os.getpid()
    if os.fork():
        return
    os.setsid()
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))  # the ends of pipes among them
    while os.getppid() == guarded:
        if not _is_there(parent):
            os.kill(guarded, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    os._exit(0)


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
