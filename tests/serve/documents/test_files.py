"""Files in blocks, with a translator that turns text round: what a stop leaves, and what comes after."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.serve.documents import translate
from fairseq_ext.serve.documents.lines import Wanted
from fairseq_ext.serve.documents.translate import Job, translate_file
from fairseq_ext.serve.runtime.requests import Answer, Candidate, Request

LINES = [f"line {n}" for n in range(7)]
TURNED = "".join(f"{line[::-1]}\n" for line in LINES)


class Turner:
    """Turns text round, and counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.stop_at = ""

    def translate(self, requests: Sequence[Request], **_: Any) -> list[Answer]:
        for request in requests:
            if request.text == self.stop_at:
                raise KeyboardInterrupt
            self.asked.append(request.text)
        return [Answer((Candidate(request.text[::-1], 0.0),), "gates", None) for request in requests]


@pytest.fixture
def turner(monkeypatch: pytest.MonkeyPatch) -> Turner:
    turner = Turner()
    monkeypatch.setattr(translate, "_load_translator", lambda _: turner)
    return turner


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "system").mkdir()
    (tmp_path / "system/system.json").write_text("{}")
    (tmp_path / "in.en").write_text("".join(f"{line}\n" for line in LINES))
    return Job(tmp_path / "system", tmp_path / "in.en", tmp_path / "out.pl", processes=1, block_lines=2)


def run(job: Job) -> str:
    translate_file(job)
    assert not [path for path in job.output.parent.iterdir() if path.name.startswith(".")]
    return job.output.read_text()


def test_a_stop_loses_one_block_at_most(job: Job, turner: Turner, capsys: pytest.CaptureFixture[str]) -> None:
    turner.stop_at = "line 5"
    with pytest.raises(KeyboardInterrupt):
        run(job)
    assert not job.output.exists()
    turner.stop_at, turner.asked = "", []
    assert run(job) == TURNED
    assert turner.asked == LINES[4:]
    assert "continues; 3 of 7 lines remain" in capsys.readouterr().err


def test_a_stop_at_the_very_end_is_mended(job: Job, turner: Turner, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(source: Path, target: Path) -> None:
        if target == job.output:
            raise KeyboardInterrupt
        os.rename(source, target)

    job.output.write_text("earlier\n")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            run(job)
    assert run(job) == TURNED
    assert turner.asked == LINES


def test_another_job_uses_no_blocks_of_an_interrupted_one(job: Job, turner: Turner) -> None:
    turner.stop_at = "line 5"
    with pytest.raises(KeyboardInterrupt):
        run(job)
    turner.stop_at, turner.asked = "", []
    translate_file(replace(job, wanted=Wanted(beam=2)))
    assert turner.asked == LINES
