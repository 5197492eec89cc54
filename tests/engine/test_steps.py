"""The step engine: a directory is finished or absent, and never built without need."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ext.engine import steps
from fairseq_ext.engine.steps import Step, atomic_write, hash_path, run_step, run_steps
from fairseq_ext.errors import InputError
from tests.small_corpus import read_tree

ROOT = Path(__file__).resolve().parents[2]

# Builds two files and kills itself, as kill -9 does, at the place the second argument names.
SUICIDAL = """
import os, signal, sys
from pathlib import Path
from fairseq_ext.engine import steps

output, source, place = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
rename = Path.rename

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def build(folder):
    (folder / "first.txt").write_text(source.read_text())
    if place == "in the build":
        die()
    (folder / "second.txt").write_text("second")

if place == "before the record":
    steps._write_record = die
if place == "before the swap":
    Path.rename = die
if place == "within the swap":
    Path.rename = lambda path, new: die() if path.name.endswith(".partial") else rename(path, new)
if place == "after the swap":
    remove = steps._remove
    steps._remove = lambda path: die() if path.name.endswith(".old") and path.exists() else remove(path)
steps.run_step(output, inputs=[source], options={}, build=build)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.txt"
    path.write_text("one")
    return path


class Copy:
    """A build that copies a file and counts its runs."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.runs = 0

    def __call__(self, folder: Path) -> None:
        self.runs += 1
        (folder / "sub").mkdir()
        (folder / "sub" / "copy.txt").write_text(self.source.read_text())


def test_second_run_does_nothing(tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = Copy(source)
    assert run_step(tmp_path / "out", inputs=[source], options={"a": 1}, build=build)
    assert not run_step(tmp_path / "out", inputs=[source], options={"a": 1}, build=build)
    assert build.runs == 1
    assert capsys.readouterr().err.splitlines()[-1] == "out: up to date"


def test_changed_option_input_or_output_builds_again(tmp_path: Path, source: Path) -> None:
    build, output = Copy(source), tmp_path / "out"
    run_step(output, inputs=[source], options={"a": 1}, build=build)
    assert run_step(output, inputs=[source], options={"a": 2}, build=build)
    source.write_text("two")
    assert run_step(output, inputs=[source], options={"a": 2}, build=build)
    assert (output / "sub" / "copy.txt").read_text() == "two"
    (output / "sub" / "copy.txt").write_text("truncated?")
    assert run_step(output, inputs=[source], options={"a": 2}, build=build)
    (output / "sub" / "copy.txt").unlink()
    assert run_step(output, inputs=[source], options={"a": 2}, build=build)


def test_directory_is_hashed_by_names_and_contents(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file").write_text("same")
    (tmp_path / "b" / steps.RECORD).write_text("{}")
    assert hash_path(tmp_path / "a") == hash_path(tmp_path / "b")
    (tmp_path / "b" / "deep" / "file").rename(tmp_path / "b" / "deep" / "other")
    assert hash_path(tmp_path / "a") != hash_path(tmp_path / "b")


def test_failing_build_leaves_the_old_result(tmp_path: Path, source: Path) -> None:
    output = tmp_path / "out"
    run_step(output, inputs=[source], options={"a": 1}, build=Copy(source))
    before = read_tree(output)

    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run_step(output, inputs=[source], options={"a": 2}, build=fail)
    assert read_tree(output) == before
    run_step(output, inputs=[source], options={"a": 2}, build=Copy(source))
    assert "half" not in read_tree(output)


@pytest.mark.parametrize("has_old", [False, True])
@pytest.mark.parametrize(
    "place", ["in the build", "before the record", "before the swap", "within the swap", "after the swap"]
)
def test_killed_run_leaves_no_mix_and_the_next_one_mends_it(
    tmp_path: Path, source: Path, place: str, has_old: bool
) -> None:
    output = tmp_path / "work" / "out"
    old = {}
    if has_old:
        run_step(output, inputs=[source], options={"old": True}, build=Copy(source))
        old = read_tree(output)

    def run(place: str, output: Path) -> int:
        command = [sys.executable, "-c", SUICIDAL, str(output), str(source), place]
        return subprocess.run(command, cwd=ROOT, stderr=subprocess.DEVNULL, check=False).returncode

    assert run("nowhere", tmp_path / "undisturbed") == 0
    undisturbed = read_tree(tmp_path / "undisturbed")
    killed = run(place, output)
    assert killed == -signal.SIGKILL or (place == "after the swap" and not has_old)
    assert (read_tree(output) if output.exists() else {}) in ({}, old, undisturbed)
    assert run("nowhere", output) == 0
    assert read_tree(output) == undisturbed
    assert sorted(path.name for path in output.parent.iterdir()) == [".out.lock", "out"]


def test_resumable_step_continues_only_its_own_fingerprint(tmp_path: Path, source: Path) -> None:
    output = tmp_path / "out"
    seen: list[bool] = []

    def build(folder: Path) -> None:
        checkpoint = folder / "checkpoint"
        seen.append(checkpoint.exists())
        checkpoint.write_text("state")
        if not seen[-1]:
            raise KeyboardInterrupt

    for options in ({"a": 1}, {"a": 2}):
        with pytest.raises(KeyboardInterrupt):
            run_step(output, inputs=[source], options=options, build=build, resumable=True)
    assert run_step(output, inputs=[source], options={"a": 2}, build=build, resumable=True)
    assert seen == [False, False, True]
    assert sorted(read_tree(output)) == ["checkpoint", steps.RECORD]


def test_missing_input_and_foreign_directory_are_refused(tmp_path: Path, source: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere does not exist"):
        run_step(tmp_path / "out", inputs=[tmp_path / "nowhere"], options={}, build=Copy(source))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("precious")
    with pytest.raises(InputError, match=r"thesis: exists, but no step"):
        run_step(tmp_path / "thesis", inputs=[source], options={}, build=Copy(source))
    assert (tmp_path / "thesis" / "chapter").read_text() == "precious"


def test_two_processes_do_not_build_the_same(tmp_path: Path, source: Path) -> None:
    with (tmp_path / ".out.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process is building it"):
            run_step(tmp_path / "out", inputs=[source], options={}, build=Copy(source))
    assert run_step(tmp_path / "out", inputs=[source], options={}, build=Copy(source))


def test_dry_run_prints_the_plan_and_builds_nothing(
    tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Step(tmp_path / "first", [source], {}, Copy(source))
    second = Step(tmp_path / "second", [tmp_path / "first"], {}, Copy(source))
    run_steps([first, second], dry_run=True)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["build", "build"]
    assert not (tmp_path / "first").exists()
    run_steps([first])
    run_steps([first, second], dry_run=True)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["up", "build"]


def test_atomic_write_leaves_the_old_file_on_failure(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail() -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert read_tree(tmp_path) == {"file.txt": b"old"}


FOLLOWER = """
import sys, time
from pathlib import Path
from fairseq_ext.engine.steps import Step, run_steps

root = Path(sys.argv[1])

def build(folder):
    (root / "building").touch()
    while not (root / "joined").exists():
        time.sleep(0.05)
    (folder / "made").write_text("by the first")

def join(folder):
    assert folder == root / "shared.partial"
    (root / "joined").touch()

def wait(folder):
    (folder / "made").write_text("by the first")

run_steps([
    Step(root / "alone", [], {}, wait),
    Step(root / "shared", [root / "alone"], {}, build, resumable=True, join=join),
    Step(root / "last", [root / "shared"], {}, wait),
])
"""


def test_further_processes_of_a_command_join_or_wait(tmp_path: Path) -> None:
    stale = tmp_path / "shared.partial"
    stale.mkdir()
    (stale / "unfinished-step.json").write_text("of another fingerprint")
    workers = []
    # The second is started first, as it may be.
    for rank in ("1", "0"):
        environment = os.environ | {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
        workers.append(
            subprocess.Popen(
                [sys.executable, "-c", FOLLOWER, str(tmp_path)],
                cwd=ROOT,
                env=environment,
                text=True,
                stderr=subprocess.PIPE,
            )  # fmt: skip
        )
    errors = [worker.communicate(timeout=60)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], errors
    assert errors[0] == ""
    assert "last: done" in errors[1]
    assert (tmp_path / "last" / "made").read_text() == "by the first"


@pytest.mark.parametrize("kind", ["old", "partial"])
def test_directories_of_others_are_never_deleted(kind: str, tmp_path: Path) -> None:
    mine = tmp_path / f"out.{kind}" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    with pytest.raises(InputError, match=rf"out\.{kind}: is in the way, and no step of this program made it"):
        run_step(tmp_path / "out", inputs=[], options={}, build=lambda folder: None)
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("kind", ["old", "partial"])
def test_what_a_kill_left_of_a_deletion_is_deleted(kind: str, tmp_path: Path) -> None:
    run_step(tmp_path / "out", inputs=[], options={}, build=lambda folder: (folder / "a").mkdir())
    (tmp_path / "out").rename(tmp_path / f"out.{kind}")
    (tmp_path / f"out.{kind}" / "a").rmdir()
    assert run_step(tmp_path / "out", inputs=[], options={}, build=lambda folder: None)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["out"]


def test_hindrances_of_the_machine_are_one_line(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "a"))

    with pytest.raises(InputError, match=r"out: .*No space left on device.*; mend that and run the same command again"):
        steps.run_steps([Step(tmp_path / "out", [], {}, fill)])
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"out: .*file"):
        steps.run_steps([Step(tmp_path / "file" / "out", [], {}, lambda folder: None)])
    with pytest.raises(FileNotFoundError):  # of the program's own making
        steps.run_steps([Step(tmp_path / "out", [], {}, lambda folder: (folder / "a" / "b").mkdir())])
