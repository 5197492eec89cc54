"""Memory that a process keeps goes back when it is free, in pieces too, and in those that it forks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ext.engine.fairseq_cli import KEEP_MEMORY

ROOT = Path(__file__).resolve().parents[1]
# Free blocks of 256 KiB between those that stay: 64 MiB in all.
PIECES = """
import os, sys, time
from fairseq_ext import tool
from tests.waiting import wait_until

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

def fill():
    blocks = [bytearray(2**18) for _ in range(512)]
    for block in blocks:
        block[:] = b"x" * len(block)
    return blocks[::2]

tool._TRIM_SECONDS = 0.1
if sys.argv[1] == "give":
    tool.give_back_at_times()
if sys.argv[2] == "child" and os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
before = resident()
staying = fill()
if sys.argv[1] == "give":
    wait_until(lambda: resident() - before < 90, "nothing went back")
else:
    time.sleep(0.3)
    assert resident() - before > 120
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's memory, and the kernel's account of it")
@pytest.mark.parametrize(("told", "process"), [("keep", "itself"), ("give", "child")])
def test_free_pieces_between_kept_ones_go_back_where_asked(told: str, process: str) -> None:
    environment = os.environ | KEEP_MEMORY | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", PIECES, told, process], env=environment, check=True, timeout=120)
