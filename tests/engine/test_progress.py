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
    tell,
    time_left,
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
    assert "left" not in lines[0]  # nothing is known of the speed yet
    assert all("left" in line for line in lines[1:])


def test_on_a_terminal_one_line_is_written_over_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, Terminal(), [(0.01, "a long line"), (0.02, "short")])
    assert "\n" not in text
    first, second, last = text.split("\r")[1:4]
    assert first == "mix: a long line"
    assert second.startswith("mix: short, ")
    assert not last.strip()


def test_several_share_the_terminals_line_as_far_as_it_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(module, "_going_on", {"ad": "ad: 3 of 4"})
    text = told(monkeypatch, Terminal(), [(0.01, "1 of 100"), (0.5, "50 of 100")])
    assert text.split("\r")[1:4] == [
        "ad: 3 of 4; mix: 1 of 100",
        "ad: 3 of 4; mix: 50 of 100, l",
        "ad: 3 of 4".ljust(29),
    ]


@pytest.mark.parametrize(
    ("seconds", "done", "left", "said"),
    [
        (10, 0, 0.5, ""),
        (60, 0.5, 0.25, ", less than a minute left"),
        (60, 0.1, 0.9, ", 9 min left"),
        (3600, 0.1, 0.9, ", 9.0 h left"),
    ],
)
def test_what_is_left_takes_as_long_as_what_is_done(seconds: float, done: float, left: float, said: str) -> None:
    assert time_left(seconds, done, left) == said


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


def test_a_line_of_its_own_takes_the_place_of_what_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(module.sys, "stderr", out)
    monkeypatch.setattr(module, "_going_on", {"gad": "gad: 10 of 20"})
    module._write(out)
    tell("mix: done")
    module._going_on["gad"] = "gad: 20 of 20"
    module._write(out)
    first, blank, line = out.getvalue().partition("\n")[0].split("\r")[1:]
    assert first == "gad: 10 of 20"
    assert blank == " " * len(first)
    assert line == "mix: done"
    assert out.getvalue().endswith("\n\rgad: 10 of 20\rgad: 20 of 20")
