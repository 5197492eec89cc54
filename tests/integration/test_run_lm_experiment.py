"""Language models from text to their report by one command, and what holds of the figures."""

import math
from pathlib import Path

import pytest

from fairseq_ext.experiments.hierarchy.config import LOSS
from fairseq_ext.experiments.hierarchy.report import ON_UNSEEN
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, read_records
from tests.experiments.small_lm_experiment import DOMAINS, UNSEEN, write_lm_experiment
from tests.integration import experiments


def losses(work: Path, name: str) -> dict[str, dict[str | int | float, float]]:
    """By domain, and by the path or number of paths, the loss per token of a run."""
    found: dict[str, dict[str | int | float, float]] = {}
    for record in read_records(work / "perplexity" / name / RECORDS_FILE).select(LOSS):
        [routing] = (value for dim, value in record.dims.items() if dim != "weights")
        found.setdefault(record.domain, {})[routing] = record.value
    return found


@pytest.mark.slow
def test_adapters_learn_their_domains_and_unseen_text_chooses_what_is_like_it(tmp_path: Path) -> None:
    path = write_lm_experiment(tmp_path)
    work = experiments.run_whole(path)
    experiments.check_nothing_is_left_to_do(path)
    # Clusters have the numbers that they have.
    experiments.check_results_are_of_the_recorded_shape(path, "hierarchy", **{"paths/induced/votes.json": None})
    found = {name: losses(work, name) for name in ("base", "single", "multi", "manual", "induced")}
    for by_domain in found.values():
        assert sorted(by_domain) == sorted([*DOMAINS, *UNSEEN])
    unseen = {name: by_domain["garden_new"].keys() for name, by_domain in found.items()}
    assert unseen["base"] == {"none"}
    assert unseen["multi"] == {"all"}
    assert unseen["single"] == {"all", "best", "mean", *DOMAINS}
    assert unseen["manual"] >= {"all", 1, 2, "bank_do"}
    assert unseen["induced"] == {"all", 1, 2}
    published = read_records(work / "report" / RECORDS_FILE)
    perplexity = published.value("manual: all paths", ON_UNSEEN, "garden_new")
    assert perplexity == pytest.approx(math.exp(found["manual"]["garden_new"]["all"]))
    base = found.pop("base")
    for name, own in found.items():
        assert sum(own[d]["own"] for d in DOMAINS) < sum(base[d]["none"] for d in DOMAINS), name
    # The first of the leaves, ordered by perplexity, shares its nouns.
    text = (work / "report/report.md").read_text(encoding="utf-8")
    assert "\n| garden_new | garden" in text.split("### Chosen paths: manual")[1]
