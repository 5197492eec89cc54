"""Language models from text to their report by one command, and what holds of the figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.metrics.records import RECORDS_FILE, read_records
from fairseq_ext.recipes.hierarchy.measurement import loss
from tests.recipes.commands import run_experiment
from tests.recipes.small_lm_experiment import DOMAINS, UNSEEN, write_lm_experiment
from tests.recorded import recorded_results, results_of, shapes_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_lm_experiment(tmp_path_factory.mktemp("lm"))
    result = run_experiment(str(path))
    assert result.returncode == 0, result.stderr[-2000:]
    return path


def losses(experiment: Path, name: str) -> dict[str, dict[str, float]]:
    """By domain and routing, the loss per token of a run."""
    records = read_records(experiment.parent / "work/perplexity" / name / RECORDS_FILE)
    found: dict[str, dict[str, float]] = {}
    for record in records:
        if record.metric.startswith(loss("")):
            found.setdefault(record.domain, {})[record.metric.removeprefix(loss(""))] = record.value
    return found


def test_everything_is_made_and_made_once(experiment: Path) -> None:
    result = run_experiment(str(experiment), "--dry-run")
    assert {line.split("/")[0].strip() for line in result.stdout.splitlines()} == {"up to date"}
    report = experiment.parent / "work/report"
    page = (report / "report.html").read_text(encoding="utf-8")
    for number in (1, 2, 3, 4, 5, 6, 7, 9):
        assert f"Table {number}." in page
    assert (report / "tree-induced.svg").is_file()


def test_the_report_is_tested_on_results_of_this_shape(experiment: Path) -> None:
    found, kept = (shapes_of(results) for results in (results_of(experiment), recorded_results("hierarchy")))
    for shapes in (found, kept):
        # Clusters have the numbers that they have.
        shapes["paths/induced/votes.json"] = None
    assert found == kept


def test_every_system_is_measured_on_every_domain(experiment: Path) -> None:
    found = {name: losses(experiment, name) for name in ("base", "single", "multi", "manual", "induced")}
    for by_domain in found.values():
        assert sorted(by_domain) == sorted([*DOMAINS, *UNSEEN])
    unseen = {name: by_domain["garden_new"].keys() for name, by_domain in found.items()}
    assert unseen["base"] == {"none"}
    assert unseen["multi"] == {"all"}
    assert unseen["single"] == {"all", "best path", "mean path", *(f"path:{name}" for name in DOMAINS)}
    assert unseen["manual"] >= {"all", "chosen:1", "chosen:2", "path:bank_do"}
    assert unseen["induced"] == {"all", "chosen:1", "chosen:2"} | {
        f"sequence:{k}:{n}" for k in (1, 2) for n in (0, 4)
    }  # fmt: skip


def test_adapters_learn_their_domains(experiment: Path) -> None:
    base = losses(experiment, "base")
    for name in ("single", "multi", "manual", "induced"):
        own = losses(experiment, name)
        assert sum(own[d]["own"] for d in DOMAINS) < sum(base[d]["none"] for d in DOMAINS), name


def test_unseen_text_chooses_what_is_like_it(experiment: Path) -> None:
    """The first of the leaves, ordered by perplexity, shares its nouns."""
    text = (experiment.parent / "work/report/report.md").read_text(encoding="utf-8")
    assert "\n| garden_new | garden" in text.split("### Table 9. Chosen paths: manual")[1]
