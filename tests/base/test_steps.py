"""The step engine: a directory is finished or absent, and never built without need."""

import errno
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base import staging, steps
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import RECORD
from fairseq_ext.base.staging import Staging
from fairseq_ext.base.steps import Step, atomic_write, run_step, run_steps
from tests.small_corpus import read_tree

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.txt"
    path.write_text("one")
    return path


def copying(source: Path) -> Callable[[Path], None]:
    """A build that copies a file."""

    def build(folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "copy.txt").write_text(source.read_text())

    return build


def run(
    output: Path, inputs: Sequence[Path] = (), build: Callable[[Path], None] = lambda folder: None, **more: Any
) -> bool:
    """Run a step without options."""
    return run_step(Step(output, inputs=inputs, build=build, **{"options": {}, **more}))


def test_changed_option_input_or_output_builds_again(tmp_path: Path, source: Path) -> None:
    output = tmp_path / "out"
    copy = output / "sub" / "copy.txt"

    def is_built(number: int) -> bool:
        return run(output, inputs=[source], options={"a": number}, build=copying(source))

    assert [is_built(number) for number in (1, 1, 2)] == [True, False, True]
    source.write_text("two")
    assert is_built(2)
    assert copy.read_text() == "two"
    copy.write_text("truncated?")
    assert is_built(2)
    copy.unlink()
    assert is_built(2)


def build_and_die(place: str, output: Path, source: Path) -> None:
    """Build two files; kill this process, as kill -9 does, at the place, if it comes there."""
    rename, clear, write_text = Path.rename, Staging.clear, Path.write_text

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def build(folder: Path) -> None:
        write_text(folder / "first.txt", source.read_text())
        if place == "in the build":
            (folder / "half").touch()
            die()
        write_text(folder / "second.txt", "second")

    def swap(path: Path, new: Path) -> Path:
        return die() if path.name == "unfinished" else rename(path, new)

    changes: dict[str, tuple[Any, str, Any]] = {
        "before the mark": (Path, "write_text", die),
        "before the record": (steps, "write_record", die),
        "within the swap": (Path, "rename", swap),
        "after the swap": (Staging, "clear", lambda it: die() if (it.folder / "replaced").exists() else clear(it)),
    }
    if place in changes:
        setattr(*changes[place])
    run_step(Step(output, inputs=[source], options={}, build=build))


@pytest.mark.parametrize(
    "place", ["before the mark", "in the build", "before the record", "within the swap", "after the swap"]
)
def test_killed_run_leaves_no_mix_and_the_next_one_mends_it(tmp_path: Path, source: Path, place: str) -> None:
    build_and_die("nowhere", tmp_path / "undisturbed", source)
    undisturbed = read_tree(tmp_path / "undisturbed")
    output = tmp_path / "work" / "out"
    run(output, inputs=[source], options={"old": True}, build=copying(source))
    old = read_tree(output)

    process = multiprocessing.get_context("fork").Process(target=build_and_die, args=(place, output, source))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (read_tree(output) if output.exists() else {}) in ({}, old, undisturbed)
    build_and_die("nowhere", output, source)
    assert read_tree(output) == undisturbed
    assert sorted(path.name for path in output.parent.iterdir()) == [".out.lock", "out"]


def test_an_interrupted_run_is_continued_by_its_own_fingerprint_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, begun = tmp_path / "mix", list[int]()

    def counting(length: int, stop: int | None = None) -> Step:
        """Counts to a length in a file, from where it stands there."""

        def count(folder: Path) -> None:
            file = folder / "done"
            begun.append(int(file.read_text()) if file.exists() else 0)
            for number in range(begun[-1], length):
                if number == stop:
                    raise KeyboardInterrupt
                file.write_text(str(number + 1))

        return Step(output, [], {"length": length}, count, resumable=True)

    with pytest.raises(KeyboardInterrupt):
        run_step(counting(4, stop=2))
    run_steps([counting(4)], dry_run=True)
    run_step(counting(4))
    with pytest.raises(KeyboardInterrupt):
        run_step(counting(6, stop=5))
    assert "mix: made again: length was 4, is 6\n" in capsys.readouterr().err
    for length in (4, 6, 2):
        run_steps([counting(length)], dry_run=True)
    assert capsys.readouterr().out.splitlines() == [
        f"up to date  {output}",
        f"continue    {output}",
        f"build       {output} (length was 4, is 2)",
    ]
    run_step(counting(8))
    assert begun == [0, 2, 0, 0]


def test_two_processes_do_not_build_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_LOCK_SECONDS", 0.1)
    with (tmp_path / ".out.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="out: another process is building it"):
            run(tmp_path / "out")
    assert run(tmp_path / "out")


def two_steps(folder: Path) -> list[Step]:
    """The second copies what the first wrote."""
    clean = Step(folder / "clean", [], {}, lambda made: (made / "LAW.en").write_text("text"))
    return [clean, Step(folder / "splits", [folder / "clean"], {}, copying(folder / "clean" / "LAW.en"))]


def test_dry_run_prints_the_plan_and_builds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_steps(two_steps(tmp_path), dry_run=True)
    assert not list(tmp_path.iterdir())
    run_steps(two_steps(tmp_path)[:1])
    run_steps(two_steps(tmp_path), dry_run=True)
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert words == ["build", "build", "up", "build"]


def write_half(path: Path) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text("half")
        raise OSError("disk full")


def test_atomic_write_leaves_the_old_file_on_failure(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("old")
    with pytest.raises(OSError, match="disk full"):
        write_half(tmp_path / "file.txt")
    assert read_tree(tmp_path) == {"file.txt": b"old"}


def test_atomic_write_replaces_neither_links_nor_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    for text in ("one", "two"):
        with atomic_write(tmp_path / "link") as temporary:
            temporary.write_text(text)
    assert read_tree(tmp_path) == {"file": b"two", "link": b"two"}
    assert (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: is not a regular file"), atomic_write(tmp_path / "pipe"):
        pass


TWO = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
FOLLOWER = """
import sys, time
from pathlib import Path
from fairseq_ext.base.steps import Step, run_steps

root = Path(sys.argv[1])

def build(folder):
    while not (root / "joined").exists():
        time.sleep(0.05)
    write(folder)

def join(folder):
    assert folder == root / ".shared.step" / "unfinished"
    (root / "joined").touch()

def write(folder):
    (folder / "made").write_text("by the first")

run_steps([
    Step(root / "alone", [], {}, write),
    Step(root / "shared", [root / "alone"], {}, build, resumable=True, join=join),
    Step(root / "last", [root / "shared"], {}, write),
])
"""


@pytest.mark.slow
def test_further_processes_of_a_command_join_or_wait(tmp_path: Path) -> None:
    Staging(tmp_path / "shared").start("another fingerprint")
    workers = []
    # The second is started first, as it may be.
    for rank in ("1", "0"):
        command = [sys.executable, "-c", FOLLOWER, str(tmp_path)]
        environment = os.environ | TWO | {"RANK": rank}
        workers.append(subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stderr=subprocess.PIPE))
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], errors
    assert errors[0] == ""
    assert "last: done" in errors[1]
    assert (tmp_path / "last" / "made").read_text() == "by the first"


def test_processes_that_train_together_do_nothing_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TWO.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match="--jobs 2: .* torchrun"):
        run_steps([Step(tmp_path / "a", [], {}, lambda _: None)], jobs=2)
    assert not (tmp_path / "a").exists()


# What is not as a step left it


def test_nothing_replaces_files_of_the_user(tmp_path: Path) -> None:
    mine = [tmp_path / "thesis" / "chapter", tmp_path / "out" / "average.pt"]
    run(tmp_path / "out", options={"a": 1})
    for file in mine:
        file.parent.mkdir(exist_ok=True)
        file.write_text("precious")
    assert not run(tmp_path / "out", options={"a": 1})
    with pytest.raises(InputError, match=r"out: contains average\.pt, .* move it away"):
        run(tmp_path / "out", options={"a": 2})
    with pytest.raises(InputError, match=r"thesis: already exists"):
        run(tmp_path / "thesis")
    assert [file.read_text() for file in mine] == ["precious", "precious"]


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.symlink_to(path.parents[1], target_is_directory=True),
        os.mkfifo,
        lambda path: (path.mkdir(), (path / "link").symlink_to("nowhere")),
    ],
)
def test_links_and_pipes_of_the_user_stay(make: Callable[[Path], Any], tmp_path: Path) -> None:
    run(tmp_path / "out", options={"a": 1})
    make(tmp_path / "out" / "mine")
    with pytest.raises(InputError, match="out: contains mine"):
        run(tmp_path / "out", options={"a": 2})
    assert os.path.lexists(tmp_path / "out" / "mine")


def test_an_output_that_no_step_reads_is_compared_too(tmp_path: Path) -> None:
    step = {"build": lambda folder: (folder / "report").write_text("text")}
    assert run(tmp_path / "out", **step)
    (tmp_path / "out" / "report").write_text("tekt")
    with pytest.raises(InputError, match="out/report: damaged or edited since step out"):
        run(tmp_path / "out", **step)


@pytest.mark.parametrize("text", ['{"fingerprint": "a", "outputs": [1]}', "{"])
def test_a_record_that_no_step_wrote_is_one_line(text: str, tmp_path: Path) -> None:
    run(tmp_path / "out", build=lambda folder: (folder / "model").write_text("model"))
    (tmp_path / "out" / RECORD).write_text(text)
    with pytest.raises(InputError, match=r"step\.json: .*; move .*out away"):
        run(tmp_path / "out")
    assert (tmp_path / "out" / "model").read_text() == "model"


def test_nothing_is_built_of_missing_or_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"out: its input .*nowhere does not exist"):
        run(tmp_path / "out", inputs=[tmp_path / "nowhere"])
    run_steps(two_steps(tmp_path))
    (tmp_path / "clean" / "LAW.en").write_text("tekst"[:4])
    with pytest.raises(InputError, match=r"clean/LAW\.en: damaged or edited since step clean"):
        run_steps(two_steps(tmp_path))
    assert (tmp_path / "splits" / "sub" / "copy.txt").read_text() == "text"
    (tmp_path / "clean").rename(tmp_path / "damaged")
    run_steps(two_steps(tmp_path))


def test_a_step_that_fails_or_lacks_its_result_is_one_line_and_not_finished(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "a"))

    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="out: .*model.pt"):
        run(tmp_path / "out", results=["model.pt"])
    with pytest.raises(InputError, match=r"out: .*No space left on device.* run the same command again"):
        run_steps([Step(tmp_path / "out", [], {}, fill)])
    with pytest.raises(InputError, match=r"out: .*file"):
        run_steps([Step(tmp_path / "file" / "out", [], {}, lambda folder: None)])
    with pytest.raises(FileNotFoundError):  # of the program's own making
        run_steps([Step(tmp_path / "out", [], {}, lambda folder: (folder / "a" / "b").mkdir())])
    assert not (tmp_path / "out").exists()
