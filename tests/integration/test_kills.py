"""Data preparation killed at random moments: the next run ends with the bytes of an undisturbed one."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from itertools import islice
from pathlib import Path

import pytest

from fairseq_ext.corpora.text_files import stream_lines, write_lines
from fairseq_ext.engine.hashing import RECORD, hash_path
from tests.fork_server import PYTHON
from tests.real_corpora import corpus

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("KILLS", "1"))
LAST = os.environ.get("KILLS_UP_TO", "encoded")
CONFIG = """
work_dir: {work_dir}
source_lang: en
target_lang: pl
corpora: {{folder: {folder}}}
clean:
  normalise: {{}}
  filters:
    {{length: , length_ratio: , long_words: , characters: , identical: , agreement: , language: ,
    dictionary: {{sentences: 5000}}}}
  deduplicate: pair
  write_rejected: true
split: {{valid: 50, test: 50}}
subwords: {{vocab_size: 500, max_sentences: 5000}}
"""
LINES = 300  # of each domain


def _write_text(folder: Path) -> None:
    for path in corpus("parallel/en-pl").iterdir():
        write_lines(folder / path.name, islice(stream_lines(path), LINES))


def _command(folder: Path) -> list[str]:
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(work_dir=folder / "run", folder=folder.parent / "text"))
    return [PYTHON, "-m", "fairseq_ext.cli", "prepare", str(config), "--workers", "2", "--to", LAST]


def _steps(folder: Path) -> dict[str, str]:
    return {path.parent.name: hash_path(path.parent) for path in sorted((folder / "run").glob(f"*/{RECORD}"))}


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_a_killed_run_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    for name in ("text", "whole"):
        (tmp_path / name).mkdir()
    _write_text(tmp_path / "text")
    start = time.monotonic()
    _run(_command(tmp_path / "whole"))
    duration = time.monotonic() - start
    expected = _steps(tmp_path / "whole")
    assert {"corpora", "learned", "clean", "splits"} <= expected.keys()
    generator = random.Random(11)
    for number in range(KILLS):
        folder = tmp_path / f"killed{number}"
        duration = _kill_midway(folder, generator, duration)
        print(f"killed within {duration:.0f} s, finished by then: {', '.join(_steps(folder)) or 'nothing'}")
        _run(_command(folder))
        assert _steps(folder) == expected
        assert not list((folder / "run").glob(".*.step")), "something half-written is left"


def _kill_midway(folder: Path, generator: random.Random, duration: float) -> float:
    """Start a run and kill it before it ends; returns how long a run takes at most, which other work makes vary."""
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        process = subprocess.Popen(_command(folder), stderr=subprocess.DEVNULL, start_new_session=True)
        delay = generator.uniform(0, duration)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            # The parent alone, as the kernel does when memory is short; its workers have to notice.
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return duration
        duration = delay
