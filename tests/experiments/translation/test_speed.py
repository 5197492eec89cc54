"""Speed: what is read from fairseq's log, what is summed up, and in which turns the outputs are timed."""

import platform
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.experiments.translation import speed
from fairseq_ext.experiments.translation.speed import Timing, describe_machine, speed_records, time_outputs

LOG = """\
INFO:fairseq_cli.generate:NOTE: hypothesis and token scores are output in base 2
INFO:fairseq_cli.generate:Translated 1,200 sentences (24,042 tokens) in 13.4s (89.82 sentences/s, 1799.55 tokens/s)
WARNING:fairseq_cli.generate:If you are using BPE on the target side, the BLEU score is computed on BPE tokens
"""


def test_the_classifier_counts_where_it_is_used() -> None:
    timings = {"law": Timing(5.0, 100, 1000), "med": Timing(2.5, 50, 800)}
    without, paid = (speed_records("gad", timings, seconds) for seconds in ({}, {"law": 2.0, "med": 0.5}))
    assert [record.value for record in without] == [20, 240]
    assert [record.value for record in paid] == [15, 180]
    assert platform.node() not in describe_machine(on_cpu=True)


def test_outputs_are_timed_in_turn_and_finished_timings_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    def generate(tool: str, arguments: list[str], messages: Path, **_: Any) -> None:
        last = dict(zip(arguments[1:-1], arguments[2:], strict=True))
        assert (last["--beam"], last["--batch-size"]) == ("1", "64")
        assert int(last["--max-tokens"]) > 10**8  # so that batches are of 64 sentences
        calls.append((arguments[0], arguments[-1]))
        messages.write_text(LOG.replace("1799.55", f"{1799.55 / len(calls):.4f}"))  # slower and slower

    monkeypatch.setattr(speed, "run_fairseq", generate)
    runs = {name: [name, "--beam", "5", "--max-tokens", "400"] for name in ("gad", "ad", "ft")}
    outputs = {name: {"law": run, "med": run} for name, run in runs.items()}
    del outputs["ft"]["law"]
    timings = time_outputs(tmp_path, outputs)
    law, med = [("gad", "test:law"), ("ad", "test:law")], [(name, "test:med") for name in ("gad", "ad", "ft")]
    assert calls == [*law, *med, *law[::-1], *med[::-1]]
    # Closer than the 13.4 s that is printed.
    assert timings["gad"]["law"] == (pytest.approx(13.36, abs=1e-3), 1200, 24042)
    assert timings["ft"].keys() == {"med"}
    (tmp_path / "round 2/ad/law.log").write_text(LOG[:150])  # killed here
    del calls[:]
    time_outputs(tmp_path, outputs)
    assert calls == [("ad", "test:law")]
