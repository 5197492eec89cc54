"""Progress is told in few lines, with the time that is left."""

import io
import threading

import pytest

from fairseq_ext.base import progress as module
from fairseq_ext.base.progress import progress


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
    assert any(line.startswith("mix: a long line, ") for line in lines)
    assert any(line.startswith("mix: short, 00:0") for line in lines)
    assert not lines[-1]
