"""Progress is told in few lines, with the time that is left, and looking at a log never disturbs."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from fairseq_ext.engine import progress as module
from fairseq_ext.engine.progress import (
    LinesWritten,
    last_lines,
    number_of,
    progress,
    training_progress,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(monkeypatch: pytest.MonkeyPatch, out: io.StringIO, parts: list[tuple[float, str] | None]) -> str:
    """What is written while something is looked at as often as there are parts."""
    monkeypatch.setattr(module.sys, "stderr", out)
    monkeypatch.setattr(module, "_TERMINAL_SECONDS", 0.001)
    monkeypatch.setattr(module, "_LOG_SECONDS", 0.001)
    remaining, is_over = list(parts), threading.Event()

    def look() -> tuple[float, str] | None:
        if not remaining:
            is_over.set()
            return None
        return remaining.pop(0)

    with progress("mix", look):
        assert is_over.wait(60)
    return out.getvalue()


def test_without_a_terminal_a_line_at_every_further_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [None, (0.05, "a"), (0.1, "b"), (0.15, "c"), (0.19, "d"), (0.35, "e"), None, (0.35, "f"), (1.0, "g")]
    lines = told(monkeypatch, io.StringIO(), parts).splitlines()
    assert [line.split(",")[0] for line in lines] == ["mix: b", "mix: e", "mix: g"]
    assert all(line.endswith(" left") for line in lines)


def test_on_a_terminal_one_line_is_written_over_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, Terminal(), [(0.01, "a long line"), (0.5, "short")])
    assert "\n" not in text
    lines = [line.strip() for line in text.split("\r")]
    assert "mix: a long line" in lines
    assert any(line.startswith("mix: short, 00:0") for line in lines)
    assert not lines[-1]


def test_the_time_left_is_that_of_the_part_seen() -> None:
    assert module._line("mix", 0.75, 60, 0.5) == "mix, 01:00 left"


def test_the_end_of_a_file_is_whole_or_missing(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes("ż".encode() * 20_000 + b"\nlast\n")
    assert last_lines(tmp_path / "log").splitlines()[-1] == "last"
    assert last_lines(tmp_path / "none") == ""


def test_numbers_of_options() -> None:
    arguments = ["data", "--max-epoch", "3", "--lr", "0.1,0.2", "--max-epoch=5", "--max-update", "0"]
    assert [number_of(arguments, name) for name in ("max-epoch", "max-update", "lr", "patience")] == [
        5,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--max-epoch", "4"], (0.375, "epoch 2 of 4, loss 8.68")),
        (["--max-update", "400"], (0.5, "update 200 of 400, loss 8.68")),
        (["--max-epoch", "4", "--max-update", "250"], (0.8, "update 200 of 250, loss 8.68")),
        (["--max-epoch", "1"], (1.0, "epoch 2 of 1, loss 8.68")),
        ([], None),
    ],
)
def test_how_far_a_training_is(tmp_path: Path, arguments: list[str], expected: tuple[float, str] | None) -> None:
    path = tmp_path / "train.log"
    lines = [
        f"| train_inner | epoch {epoch:03d}:     50 / 100 loss=8.675, ppl=271, num_updates={epoch}00, lr=1"
        for epoch in (1, 2)
    ]
    path.write_text("\n".join([*lines, "2026 | INFO | fairseq_cli.train | begin validation"]))
    assert training_progress(path, arguments) == expected
    assert training_progress(tmp_path / "none", arguments) is None


def test_lines_of_a_growing_file_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "generate.txt"
    count = LinesWritten(path, b"D-")
    assert count() == 0
    for text, number in (("S-0\tD-\nD-0\tx\nD-", 1), ("1\ty\nH-2\n", 2), ("", 2), ("D-2\tz", 2), ("\n", 3)):
        with path.open("a") as file:
            file.write(text)
        assert count() == number
    path.write_bytes(b"x" * path.stat().st_size)  # what has been read is not read again
    assert count() == 3
