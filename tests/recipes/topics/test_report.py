"""The report of a tiny real run: its records to the last digit, and one rendered page."""

from __future__ import annotations

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.recipes.report import BEST_EPOCH, EPOCHS, SECONDS, VALID_BY_EPOCH
from fairseq_ext.recipes.topics.config import Topics
from fairseq_ext.recipes.topics.measurement import BASE_TEXT
from fairseq_ext.recipes.topics.report import page, report
from fairseq_ext.report.measurements import Records, read_records
from tests.recipes.topics.small_experiment import write_topic_experiment
from tests.recorded import restore

# Value by system, metric and domain or set; of one run each.
GOLDEN = {
    ("base", "perplexity", "garden_ask"): 87.48141502517463,
    ("base", "perplexity", "base text"): 4.418805303994965,
    ("tuned", "perplexity", "garden_ask"): 15.61721550663663,
    ("steered", "perplexity", "garden_ask"): 15.555037132396025,
    ("steered", "perplexity, topic 0 alone", "garden_ask"): 28.893228712324927,
    ("steered", "perplexity", "base text"): 12.052098498171508,
    ("steered", "perplexity, topic 0 alone", "base text"): 9.797407628785342,
    ("steered", "BLEU-3", "garden_ask"): 3.0901859065759703,
    ("steered", "ROUGE-L", "garden_ask"): 14.444444444444443,
    ("steered", "entropy", "garden_ask"): 1.4646514306080687,
    ("steered", "largest share", "garden_ask"): 63.574079146592965,
    ("steered", "coherence, near, N = 2", "garden_ask"): -1.636850611827609,
    ("steered", "coherence, used, N = 3", "garden_ask"): -1.1972292382816367,
    ("output", "perplexity", "garden_do"): 19.76981924288796,
    ("LDA, 2 topics", "coherence, used, N = 2", "garden_ask"): -1.0140741236379678,
    ("NMF, 2 topics", "coherence, used, N = 3", "garden_do"): -0.9916504433540281,
}

TRAINING = (BEST_EPOCH, EPOCHS, SECONDS, VALID_BY_EPOCH)


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
