"""Word language models from text to their report by one command, and what holds of the figures."""

import re
from pathlib import Path

import pytest

from fairseq_ext.experiments.metrics.records import Record, read_records
from tests.experiments.recurrent.small_experiment import write_word_lm_experiment
from tests.integration import experiments
from tests.integration.test_command_lines import run_well

RUNS = ("kneser-ney", "standard", "fixed", "dagru@1", "dagru@2")


def perplexity(work: Path, name: str) -> Record:
    """Of the test set."""
    records = read_records(work / "perplexity" / name / "records.jsonl")
    [found] = [record for record in records if (record.metric, record.domain) == ("perplexity", "test")]
    return found


@pytest.mark.slow
def test_all_models_are_measured_on_the_same_tokens_as_fairseq_measures(tmp_path: Path) -> None:
    path = write_word_lm_experiment(tmp_path)
    work = experiments.run_whole(path)
    experiments.check_nothing_is_left_to_do(path)
    experiments.check_results_are_of_the_recorded_shape(path, "recurrent")
    lines = (tmp_path / "test.txt").read_text(encoding="utf-8").splitlines()
    tokens = sum(len(line.split()) + 1 for line in lines)
    for name in RUNS:
        measured = perplexity(work, name)
        assert measured.n == tokens
        # Of twenty words, and the end: all have learned something.
        assert 1 < measured.value < 15
    # Without a batch size, fairseq-eval-lm reads in one row, too.
    printed = run_well(
        "eval_lm", "data-bin", "--cpu", "--path", "systems/dagru@1/checkpoint_best.pt", "--gen-subset", "test",
        "--task", "contiguous_language_modeling", "--tokens-per-sample", "7", cwd=work,
    )  # fmt: skip
    [found] = re.findall(r"Perplexity: ([\d.]+)", printed)
    assert perplexity(work, "dagru@1").value == pytest.approx(float(found), abs=0.01)
