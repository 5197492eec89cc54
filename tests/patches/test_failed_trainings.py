"""Trainings that cannot go on end in one line that says why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fairseq.distributed import utils as distributed_utils
from fairseq_cli import train

import fairseq_ext.registration  # noqa: F401
from tests import toy


def start(data: Path, folder: Path, *arguments: str) -> None:
    config = toy.composed(
        toy.train_args(data, "--save-dir", str(folder), "--max-update", "20", "--num-workers", "0", *arguments)
    )
    distributed_utils.call_main(config, train.main)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--lr", "1e12"], r"update \d+: the loss or its gradient is not a number"),
        (["--max-tokens", "1"], "no sentence fits: --max-tokens 1 "),
        (["--update-freq", "0"], "--update-freq 0"),
    ],
)
def test_options_that_cannot_train_are_one_line(arguments: list[str], line: str, data: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=line):
        start(data, tmp_path, *arguments)


def test_a_damaged_index_is_named(data: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(data, tmp_path / "data"))
    index = next(damaged.glob("*/train.*.idx"))
    index.write_bytes(index.read_bytes()[:20])
    with pytest.raises(SystemExit, match=f"{index}: damaged"):
        start(damaged, tmp_path / "trained")
