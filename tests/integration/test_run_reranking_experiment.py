"""Re-ranking from a translation experiment's folder to the report, by one command."""

import json
from pathlib import Path

import pytest

from fairseq_ext.experiments.metrics.records import read_records
from tests.experiments.reranking.small_experiment import TRANSLATION, write_file
from tests.experiments.translation.small_translation_experiment import TRAIN, TRANSLATE
from tests.integration import experiments
from tests.small_corpus import write_config, write_corpora

DOMAINS = ("bank", "garden")
ROWS = ["first-best", "mix", "list", "kneser-ney", "standard", "dagru", "oracle"]


@pytest.mark.slow
def test_every_domain_is_re_ranked_by_its_own_models_and_once(tmp_path: Path) -> None:
    train = {**TRAIN, "systems": {"mix": TRAIN["systems"]["mix"]}}
    translate = {**TRANSLATE, "outputs": {"mix": {"system": "mix"}}}
    translation = write_config(
        tmp_path / "translation.yaml", write_corpora(tmp_path / "corpora"), train=train, translate=translate
    )
    given = {"work_dir": str(experiments.run_whole(translation, "--only", "prepare", "mix", "translate")),
             **TRANSLATION, "outputs": ["mix"]}  # fmt: skip
    path = write_file(tmp_path, translation=given)
    experiments.run_whole(path)
    experiments.check_nothing_is_left_to_do(path)
    work = tmp_path / "reranking"
    records = read_records(work / "report/records.jsonl")
    assert records.systems("BLEU") == ROWS
    assert records.domains("BLEU") == ["all", *DOMAINS]
    for domain in DOMAINS:
        written = json.loads((work / f"reranked/dagru/{domain}.json").read_text(encoding="utf-8"))
        assert list(written["weights"]) == ["model", "model_sum", "words", "dagru"]
        [perplexity] = records.of("dagru", "perplexity", domain)
        assert 1 < perplexity.value < 70
        scores = {row: records.of(row, "BLEU", domain)[0].value for row in ROWS if row != "mix"}
        assert max(scores.values()) == scores["oracle"]
        lines = [(work / "reranked" / row / f"{domain}.de").read_text().splitlines() for row in scores]
        assert {len(own) for own in lines} == {10}
    # Another number of restarts trains nothing.
    path = write_file(tmp_path, translation=given, rerank={"restarts": 3, "resamples": 50, "cpu": True})
    due = [line for line in experiments.planned(path) if not line.startswith("up to date")]
    assert len(due) == 2, due
    assert "reranked" in due[0]
