"""Topic models from text to their report by one command, and nothing twice."""

import re
from pathlib import Path

import pytest

from fairseq_ext.experiments.metrics.records import read_records
from tests.experiments.topics.small_experiment import SYSTEMS, write_topic_experiment
from tests.integration import experiments


@pytest.mark.slow
def test_topics_help_and_only_what_changes_a_result_is_measured_again(tmp_path: Path) -> None:
    path = write_topic_experiment(tmp_path)
    work = experiments.run_whole(path)
    experiments.check_results_are_of_the_recorded_shape(path, "topics")
    records = read_records(work / "report/records.jsonl")
    assert records.systems("perplexity") == list(SYSTEMS)
    base, steered = (records.of(name, "perplexity", "garden_ask")[0] for name in ("base", "steered"))
    assert steered.value < base.value
    assert steered.n == base.n  # the same text for both
    text = path.read_text()
    for key, value, state in (("cpu", "false", "up to date"), ("top_k", "3", "build")):
        path.write_text(re.sub(f"^  {key}: .*$", f"  {key}: {value}", text, flags=re.MULTILINE))
        runs = [line for line in experiments.planned(path, "--only", "topics") if "/topics/" in line]
        assert len(runs) == len(SYSTEMS)
        assert all(line.startswith(state) for line in runs)
