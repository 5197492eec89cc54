"""Data preparation killed in a step: the next run ends with the bytes of an undisturbed one."""

from __future__ import annotations

import os
import random
import subprocess
from itertools import islice
from pathlib import Path

import pytest

from fairseq_ext.corpora.text_files import stream_lines, write_lines
from fairseq_ext.engine.hashing import RECORD, hash_path
from tests.fork_server import PYTHON
from tests.real_corpora import corpus
from tests.verbs import verb
from tests.waiting import wait_until

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


def _config(folder: Path) -> Path:
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(work_dir=folder / "run", folder=folder.parent / "text"))
    return config


def _steps(folder: Path) -> dict[str, str]:
    return {path.parent.name: hash_path(path.parent) for path in sorted((folder / "run").glob(f"*/{RECORD}"))}


@pytest.mark.slow
def test_a_killed_run_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    for name in ("text", "whole"):
        (tmp_path / name).mkdir()
    _write_text(tmp_path / "text")
    verb("prepare")([str(_config(tmp_path / "whole")), "--workers", "1", "--to", LAST])
    expected = _steps(tmp_path / "whole")
    assert {"corpora", "learned", "clean", "splits"} <= expected.keys()
    generator = random.Random(11)
    for number in range(KILLS):
        folder = tmp_path / f"killed{number}"
        folder.mkdir()
        command = [PYTHON, "-m", "fairseq_ext.cli", "prepare", str(_config(folder)), "--workers", "2", "--to", LAST]
        _kill_in(generator.choice(list(expected)), command, folder)
        print(f"finished by then: {', '.join(_steps(folder)) or 'nothing'}")
        subprocess.run(command, capture_output=True, check=True)
        assert _steps(folder) == expected
        assert not list((folder / "run").glob(".*.step")), "something half-written is left"


def _kill_in(step: str, command: list[str], folder: Path) -> None:
    """Start a run, and kill it when it has begun a step."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    places = (folder / "run" / f".{step}.step" / "unfinished", folder / "run" / step)
    wait_until(lambda: process.poll() is not None or any(map(Path.exists, places)), f"{step} did not begin")
    # The parent alone, as the kernel does when memory is short; its workers have to notice.
    process.kill()
    process.wait()
