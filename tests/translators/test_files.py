"""Files in blocks, with a translator that turns text round: what a stop leaves, and what comes after."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.requests import Answer, Candidate, Request
from fairseq_ext.translators import translate
from fairseq_ext.translators.lines import Wanted
from fairseq_ext.translators.translate import Job, translate_file

LINES = [f"line {n}" for n in range(7)]
TURNED = "".join(f"{line[::-1]}\n" for line in LINES)


class Turner:
    """Turns text round, and counts what it was asked."""

    domains = ("law", "med")

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.stop_at = ""

    def translate(self, requests: Sequence[Request], **_: Any) -> list[Answer]:
        for request in requests:
            if request.text == self.stop_at:
                raise KeyboardInterrupt
            self.asked.append(request.text)
        return [
            Answer((Candidate(request.text[::-1], -0.123456),), request.route or "gates", None) for request in requests
        ]


@pytest.fixture
def turner(monkeypatch: pytest.MonkeyPatch) -> Turner:
    turner = Turner()
    monkeypatch.setattr(translate, "_load_translator", lambda _: turner)
    return turner


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "system").mkdir()
    (tmp_path / "system/system.json").write_text("{}")
    (tmp_path / "in.en").write_text("".join(f"{line}\n" for line in LINES))
    return Job(tmp_path / "system", tmp_path / "in.en", tmp_path / "out.pl", processes=1, block_lines=2)


def run(job: Job) -> str:
    translate_file(job)
    return job.output.read_text()


def left_behind(job: Job) -> list[str]:
    return sorted(path.name for path in job.output.parent.iterdir() if path.name.startswith("."))


def test_line_for_line_and_only_once(job: Job, turner: Turner, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(job) == TURNED
    assert turner.asked == LINES
    assert left_behind(job) == []
    assert run(job) == TURNED
    assert turner.asked == LINES
    assert "out.pl: up to date" in capsys.readouterr().err


def test_a_stop_loses_one_block_at_most(job: Job, turner: Turner, capsys: pytest.CaptureFixture[str]) -> None:
    turner.stop_at = "line 5"
    with pytest.raises(KeyboardInterrupt):
        run(job)
    assert not job.output.exists()
    turner.stop_at, turner.asked = "", []
    assert run(job) == TURNED
    assert turner.asked == LINES[4:]
    assert "goes on; 3 of 7 lines are left" in capsys.readouterr().err


def test_a_stop_at_the_very_end_is_mended(job: Job, turner: Turner, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(source: Path, target: Path) -> None:
        if target == job.output:
            raise KeyboardInterrupt
        os.rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            run(job)
    assert run(job) == TURNED
    assert turner.asked == LINES
    assert left_behind(job) == []


@pytest.mark.parametrize("change", ["source", "wanted", "system"])
def test_what_was_made_of_something_else_is_made_anew(job: Job, turner: Turner, change: str) -> None:
    run(job)
    turner.asked = []
    if change == "source":
        job.source.write_text("other\n")
    elif change == "system":
        (job.system / "system.json").write_text('{"other": 1}')
    else:
        job = replace(job, wanted=Wanted(beam=2))
    assert run(job) == ("rehto\n" if change == "source" else TURNED)
    assert turner.asked


@pytest.mark.parametrize("before", ["never", "edited"])
def test_a_users_own_file_stays(job: Job, turner: Turner, before: str) -> None:
    if before == "edited":
        run(job)
        job.source.write_text("other\n")
    job.output.write_text("mine\n")
    with pytest.raises(InputError, match=r"out\.pl: exists, and is not as this command wrote it"):
        run(job)
    assert job.output.read_text() == "mine\n"
    job.output.write_text("")
    assert run(job)
