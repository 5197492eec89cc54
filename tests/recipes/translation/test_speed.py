"""Speed: what is read from fairseq's log, what is summed up, and in which turns the outputs are timed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.data.teacher_labels import write_teacher_record
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation import speed
from fairseq_ext.recipes.translation.speed import (
    TimedOutput,
    Timing,
    describe_machine,
    greedy_arguments,
    measure_speed,
    parse_timing,
    summarise_output,
)

LOG = """\
INFO:fairseq_cli.generate:loading model(s) from systems/gad/checkpoint_best.pt
INFO:fairseq.tasks.fairseq_task:creating new batches for epoch 1
INFO:fairseq_cli.generate:NOTE: hypothesis and token scores are output in base 2
INFO:fairseq_cli.generate:Translated 1,200 sentences (24,042 tokens) in 13.4s (89.82 sentences/s, 1799.55 tokens/s)
WARNING:fairseq_cli.generate:If you are using BPE on the target side, the BLEU score is computed on BPE tokens
"""


def test_parsing() -> None:
    timing = parse_timing(LOG.splitlines())
    assert timing is not None
    assert (timing.sentences, timing.tokens) == (1200, 24042)
    # Closer than the 13.4 that is printed.
    assert timing.seconds == pytest.approx(13.36, abs=1e-4)
    assert parse_timing(LOG.splitlines()[:3]) is None


def test_the_best_round_counts_and_the_classifier_with_it() -> None:
    timings = {"law": [Timing(100, 1000, 6.0), Timing(100, 1000, 5.0)], "med": [Timing(50, 800, 2.5)] * 2}
    without = summarise_output(timings, {"law": [], "med": []})
    assert without["domains"]["law"] == {
        "sentences": 100, "tokens": 1000, "seconds": 5.0, "classifier_seconds": 0, "rounds": [6.0, 5.0],
    }  # fmt: skip
    assert (without["sentences_per_second"], without["tokens_per_second"]) == (20.0, 240.0)
    paid = summarise_output(timings, {"law": [2.0, 2.5], "med": [1.0, 0.5]})
    assert (paid["sentences_per_second"], paid["tokens_per_second"]) == (15.0, 180.0)


def test_what_is_not_greedy_is_left_out() -> None:
    arguments = ["data", "--beam", "5", "--max-tokens", "4000", "--nbest", "2", "--cpu", "--batch-size", "8"]
    assert greedy_arguments([*arguments, "--max-len-b", "12"]) == [
        "data", "--cpu", "--max-len-b", "12", "--beam", "1", "--batch-size", "64", "--quiet",
    ]  # fmt: skip


def test_the_machine_has_no_name() -> None:
    import platform

    description = describe_machine(on_cpu=True)
    assert "torch" in description
    assert "threads" in description
    assert platform.node() not in description


class Classifier:
    """One whose calls are counted."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def predict(self, texts: list[str]) -> np.ndarray:
        self.asked.append(list(texts))
        time.sleep(0.001)
        return np.ones((len(texts), 1))


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Text and a teacher, and the calls of a fairseq-generate that only says how fast it was."""
    for domain in ("law", "med"):
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "test.en").write_text(f"a {domain} sentence\n")
    write_teacher_record(tmp_path, ["law", "med"], "toy", {})
    calls: list[tuple[str, str]] = []

    def generate(tool: str, arguments: list[str], messages: Path, **_: Any) -> None:
        calls.append((arguments[0], arguments[-1]))
        messages.write_text(LOG)

    monkeypatch.setattr(speed, "run_fairseq", generate)
    return calls


def test_outputs_take_turns_and_what_is_timed_is_kept(
    tmp_path: Path, calls: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = Classifier()
    monkeypatch.setattr(speed, "load_classifier", lambda *_: classifier)
    outputs = {
        "gad": TimedOutput({"law": ["gad"], "med": ["gad"]}),
        "ad": TimedOutput({"law": ["ad"], "med": ["ad"]}, uses_classifier=True),
        "ft": TimedOutput({"med": ["ft"]}),
    }
    record = measure_speed(tmp_path, outputs, splits=tmp_path, teacher=tmp_path, lang="en")
    law, med = [("gad", "test:law"), ("ad", "test:law")], [(name, "test:med") for name in ("gad", "ad", "ft")]
    assert calls == [*law, *med, *law[::-1], *med[::-1]]
    # In each round a first sentence, then a call a domain.
    assert classifier.asked[1:3] == [["a law sentence"], ["a med sentence"]]
    assert len(classifier.asked) == 6
    assert set(record) == {"gad", "ad", "ft"}
    assert set(record["ft"]["domains"]) == {"med"}
    assert record["gad"]["domains"]["law"]["classifier_seconds"] == 0
    assert record["ad"]["domains"]["law"]["classifier_seconds"] > 0
    assert record["gad"]["sentences_per_second"] == pytest.approx(89.82, abs=0.01)

    (tmp_path / "logs/round 2/ad/law.log").write_text(LOG[:200])  # killed here
    del calls[:]
    measure_speed(tmp_path, outputs, splits=tmp_path, teacher=tmp_path, lang="en")
    assert calls == [("ad", "test:law")]
    assert len(classifier.asked) == 6


def test_a_log_without_a_speed_is_named(tmp_path: Path, calls: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "run_fairseq", lambda *_, messages, **__: messages.write_text("nothing\n"))
    with pytest.raises(InputError, match=r"law\.log: fairseq-generate did not say how fast"):
        measure_speed(tmp_path, {"gad": TimedOutput({"law": ["gad"]})}, splits=tmp_path, teacher=tmp_path, lang="en")
