"""Ways in which filtering programs lose text without a word, with a good exit status; none of them works here.

OpusFilter 3.3.1 was seen doing all of these: it cuts the longer of two files, takes half-written output for
finished, ends well although a worker died or failed, and slips a side by a line at a lone carriage return.
"""

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from fairseq_ext.base.hashing import hash_path
from tests.fork_server import PYTHON

ROOT = Path(__file__).parents[2]
NUM_PAIRS = 60_000  # three blocks


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One domain of pairs that say their number on both sides, some of them with a lone carriage return inside."""
    folder = tmp_path_factory.mktemp("text")
    generator = random.Random(3)
    breaks = {number: "\r" if generator.random() < 0.001 else " " for number in range(NUM_PAIRS)}
    for lang, word in (("en", "dog"), ("pl", "pies")):
        lines = (f"{number}{breaks[number]}{word} {word}\n" for number in range(NUM_PAIRS))
        (folder / f"A.{lang}").write_text("".join(lines), encoding="utf-8", newline="")
    return folder


def _command(folder: Path, text: Path, workers: int = 2) -> list[str]:
    folder.mkdir(exist_ok=True)
    config = {
        "work_dir": str(folder / "work"),
        "source_lang": "en",
        "target_lang": "pl",
        "corpora": {"folder": str(text)},
        "clean": {"filters": {"length": {}}, "deduplicate": "pair"},
    }
    (folder / "c.yaml").write_text(yaml.safe_dump(config))
    program = [PYTHON, "-m", "fairseq_ext.cli", "prepare"]
    return [*program, str(folder / "c.yaml"), "--to", "clean", "--workers", str(workers)]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def undisturbed(text: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("undisturbed")
    result = _run(_command(folder, text))
    assert result.returncode == 0, result.stderr
    sides = [(folder / "work" / "clean" / f"A.{lang}").read_text().split("\n") for lang in ("en", "pl")]
    # Every pair is there and still a pair, also those with a carriage return.
    assert len(sides[0]) == NUM_PAIRS + 1
    assert [line.replace("dog", "pies") for line in sides[0]] == sides[1]
    return hash_path(folder / "work" / "clean")


@pytest.mark.slow
def test_unequal_files_are_refused_and_not_cut(text: Path, tmp_path: Path) -> None:
    for lang, size in (("en", 1000), ("pl", 700)):
        lines = (text / f"A.{lang}").read_bytes().split(b"\n")[:size]
        (tmp_path / f"A.{lang}").write_bytes(b"\n".join(lines) + b"\n")
    result = _run(_command(tmp_path / "run", tmp_path))
    assert result.returncode == 1
    error = result.stderr.splitlines()[-1]
    assert "A.en, line 701" in error
    assert "A.pl" in error
    assert not (tmp_path / "run" / "work" / "clean").exists()


@pytest.mark.slow
def test_half_written_output_is_not_taken_for_finished(text: Path, undisturbed: str, tmp_path: Path) -> None:
    command = _command(tmp_path, text)
    clean = tmp_path / "work" / "clean"
    while not _was_killed_midway(command, clean):  # it came to its end first
        shutil.rmtree(tmp_path / "work")
    result = _run(command)
    assert result.returncode == 0
    assert "continuing an interrupted run" in result.stderr
    assert hash_path(clean) == undisturbed


def _was_killed_midway(command: list[str], output: Path) -> bool:
    """Start a run and kill it at its first finished block."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            if list((output.parent / ".clean.step" / "unfinished" / ".jobs").glob("0*")):
                process.kill()
            time.sleep(0.001)
    return not output.exists()


@pytest.mark.slow
def test_full_disk_is_one_line_and_the_next_run_goes_on(text: Path, undisturbed: str, tmp_path: Path) -> None:
    command = _command(tmp_path, text, workers=1)
    # No file may grow over 200 KB: what a full disk does, without filling one.
    result = _run(["bash", "-c", 'ulimit -f 200; exec "$@"', "bash", *command])
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "File too large" in result.stderr.splitlines()[-1]
    assert _run(command).returncode == 0
    assert hash_path(tmp_path / "work" / "clean") == undisturbed
