"""What the report compares."""

from __future__ import annotations

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.metrics.records import Records, read_records
from fairseq_ext.recipes.topics.config import Topics
from fairseq_ext.recipes.topics.measurement import BASE_TEXT
from fairseq_ext.recipes.topics.report import page, report
from tests.recipes.topics.small_experiment import write_topic_experiment
from tests.recorded import restore


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Topics:
    found: Topics = restore("topics", write_topic_experiment(tmp_path_factory.mktemp("topics")))
    run_steps([report(found)])
    return found


@pytest.fixture(scope="module")
def records(experiment: Topics) -> Records:
    return read_records(experiment.work_dir / "report/records.jsonl")


def test_the_file_chooses_other_baselines(experiment: Topics, records: Records) -> None:
    compared = page(experiment.model_copy(update={"compare": {"tuned": ["base"]}}), records).comparisons
    assert [(each.system, each.baseline, each.domain) for each in compared] == [
        ("tuned", "base", "garden_ask"), ("tuned", "base", BASE_TEXT),
    ]  # fmt: skip
