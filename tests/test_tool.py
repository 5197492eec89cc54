"""fairseq's commands as this project starts them: what they load and keep, and what processes of theirs find."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ext.base.fairseq_cli import KEEP_MEMORY, USER_DIR, own_environment

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("true_processes")]
SPAWNING = """
import importlib.util, logging, multiprocessing, sys
logging.basicConfig(format="our format: %(message)s", stream=sys.stdout, level="INFO")
def child():
    logging.info("%s %s", importlib.util.find_spec("fairseq_ext") is not None, sys.argv)
def cli_main():
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""
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


def test_a_process_that_is_spawned_begins_as_fairseqs_do(tmp_path: Path) -> None:
    """As fairseq-train does for each GPU; here by a tool that stands in the way of fairseq's own."""
    (tmp_path / "fairseq_cli").mkdir()
    (tmp_path / "fairseq_cli" / "__init__.py").touch()
    (tmp_path / "fairseq_cli" / "spawning.py").write_text(SPAWNING, encoding="utf-8")
    environment = own_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    command = [sys.executable, "-P", "-m", "fairseq_ext.tool", "spawning", "--user-dir", str(USER_DIR)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    arguments = [str(tmp_path / "fairseq_cli" / "spawning.py"), "--user-dir", str(USER_DIR)]
    assert done.stdout.splitlines()[-1] == f"our format: True {arguments}"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's memory, and the kernel's account of it")
@pytest.mark.parametrize(("told", "process"), [("keep", "itself"), ("give", "child")])
def test_free_pieces_between_kept_ones_go_back_where_asked(told: str, process: str) -> None:
    environment = os.environ | KEEP_MEMORY | {"PYTHONPATH": str(USER_DIR.parent)}
    subprocess.run([sys.executable, "-c", PIECES, told, process], env=environment, check=True, timeout=120)
