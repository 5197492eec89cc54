"""Re-ranking from a translation experiment's folder to the report, by one command."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.metrics.records import read_records
from fairseq_ext.recipes.reranking.tuning import Weights
from tests.recipes.commands import run_experiment
from tests.recipes.reranking.small_experiment import TRANSLATION, write_file
from tests.recipes.translation.small_translation_experiment import TRAIN, TRANSLATE
from tests.small_corpus import write_config, write_corpora

pytestmark = pytest.mark.slow

DOMAINS = ("bank", "garden")


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reranking")
    train = {**TRAIN, "systems": {"mix": TRAIN["systems"]["mix"]}}
    translate = {**TRANSLATE, "outputs": {"mix": {"system": "mix"}}}
    translation = write_config(
        folder / "translation.yaml", write_corpora(folder / "corpora"), train=train, translate=translate
    )
    result = run_experiment(str(translation), "--only", "prepare", "mix", "translate")
    assert result.returncode == 0, result.stderr[-2000:]
    path = write_file(folder, translation={"work_dir": str(folder / "work"), **TRANSLATION, "outputs": ["mix"]})
    result = run_experiment(str(path))
    assert result.returncode == 0, result.stderr[-2000:]
    return path


def test_every_domain_is_re_ranked_by_its_own_models(experiment: Path) -> None:
    work = experiment.parent / "reranking"
    records = read_records(work / "report/records.jsonl")
    rows = ["first-best", "mix", "list", "kneser-ney", "standard", "dagru", "oracle"]
    assert records.systems("BLEU") == rows
    assert records.domains("BLEU") == ["all", *DOMAINS]
    for domain in DOMAINS:
        weights = Weights.read(work / f"reranked/dagru/{domain}.json")
        assert list(weights.weights) == ["model", "model_sum", "words", "dagru"]
        [perplexity] = records.of("dagru", "perplexity", domain)
        assert 1 < perplexity.value < 70
        scores = {row: records.of(row, "BLEU", domain)[0].value for row in rows if row != "mix"}
        assert max(scores.values()) == scores["oracle"]
        lines = [(work / "reranked" / row / f"{domain}.de").read_text().splitlines() for row in rows if row != "mix"]
        assert {len(own) for own in lines} == {10}
    page = (work / "report/report.html").read_text(encoding="utf-8")
    assert "Table 5. BLEU of translations, first-best and re-ranked" in page


def test_everything_is_made_once(experiment: Path) -> None:
    result = run_experiment(str(experiment), "--dry-run")
    assert {line.split("/")[0].strip() for line in result.stdout.splitlines()} == {"up to date"}


def test_another_number_of_restarts_re_ranks_and_trains_nothing(experiment: Path) -> None:
    given = {"work_dir": str(experiment.parent / "work"), **TRANSLATION, "outputs": ["mix"]}
    path = write_file(experiment.parent, translation=given, rerank={"restarts": 3, "resamples": 50, "cpu": True})
    result = run_experiment(str(path), "--dry-run")
    due = [line for line in result.stdout.splitlines() if not line.startswith("up to date")]
    assert len(due) == 2, result.stdout
    assert "reranked" in due[0]
