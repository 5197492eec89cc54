"""The report's figures are those of the record, marked against the list without a language model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from fairseq_ext.experiments.reranking.config import RerankingExperiment
from fairseq_ext.experiments.reranking.report import make_report, report_step
from fairseq_ext.report.content import Missing, Table
from fairseq_ext.reranking.report import choose, compare
from tests.experiments.reranking.small_reranking_experiment import TRANSLATION
from tests.experiments.reranking.test_config import load
from tests.reranking.made_up import make_list


@pytest.fixture
def config(tmp_path: Path) -> RerankingExperiment:
    return load(tmp_path)


def write_record(config: RerankingExperiment, others: Mapping[str, list[str]] = MappingProxyType({})) -> dict:
    nbest, references, counts = make_list(3, sentences=40)
    weights = {row: np.array([0.0, place, -0.5]) for place, row in enumerate(config.rows)}
    choices = choose(nbest, counts, weights)
    groups = {"bank": np.arange(20), "garden": np.arange(20, 40)}
    record = compare(nbest, references, choices, others=others, groups=groups, tokenizer="13a", resamples=30, seed=1)
    for found in record["comparisons"]:
        for group in found["BLEU"].values():
            group["p"] = 0.5
    marked = next(c for c in record["comparisons"] if (c["system"], c["than"]) == ("dagru", "list"))
    marked["BLEU"]["garden"] = {"difference": -1.0, "p": 0.01}
    perplexity = {name: {"kneser-ney": 20.0, "standard": 18.5, "dagru": 17.25} for name in ("bank", "garden")}
    (config.work_dir / "reranked").mkdir(parents=True)
    (config.work_dir / "reranked" / "scores.json").write_text(json.dumps({**record, "perplexity": perplexity}))
    return record


def tables(config: RerankingExperiment) -> dict[str, Table | Missing]:
    blocks = [block for section in make_report(config).sections for block in section.blocks]
    return {block.title: block for block in blocks if isinstance(block, Table | Missing)}


def test_table_5_has_every_row_and_domain(config: RerankingExperiment) -> None:
    record = write_record(config)
    table = tables(config)["Table 5. BLEU of translations, first-best and re-ranked"]
    assert isinstance(table, Table)
    assert table.columns == ["bank", "garden", "all"]
    rows = {row.name: row.cells for _, rows in table.groups for row in rows}
    assert list(rows) == ["first-best", "list", "kneser-ney", "standard", "dagru", "oracle"]
    for name, cells in rows.items():
        scores = record["systems"][name]["BLEU"]
        assert [cell.text for cell in cells] == [f"{scores[group]:.2f}" for group in table.columns]
    assert [cell.mark for cell in rows["dagru"]] == ["", "▼", ""]
    assert not any(cell.is_best for cells in rows.values() for cell in cells), "no difference to list is shown"


def test_an_output_is_a_row_and_is_not_called_re_ranked(tmp_path: Path) -> None:
    config = load(tmp_path, translation={"work_dir": "x", **TRANSLATION, "outputs": ["mix"]})
    _, references, _ = make_list(3, sentences=40)
    write_record(config, {"mix": references})
    report = make_report(config)
    table = tables(config)["Table 5. BLEU of translations, first-best and re-ranked"]
    assert isinstance(table, Table)
    assert [row.name for _, rows in table.groups for row in rows][:3] == ["first-best", "mix", "list"]
    assert "mix: as x has it, of its own beam." in table.below.notes
    assert "100.00 as mix of its own beam" in report.lead
    assert not report.lead.startswith("Re-ranked by mix")


def test_models_and_pairs_are_told(config: RerankingExperiment) -> None:
    record = write_record(config)
    found = tables(config)
    models = found["Perplexity of the test sets"]
    assert isinstance(models, Table)
    assert [(row.name, row.cells[0].text) for row in models.groups[0][1]] == [
        ("kneser-ney", "20.00"), ("standard", "18.50"), ("dagru", "17.25"),
    ]  # fmt: skip
    pairs = found["Differences and how likely chance makes them"]
    assert isinstance(pairs, Table)
    assert len(pairs.groups[0][1]) == len(record["comparisons"])
    assert f"{record['systems']['oracle']['BLEU']['all']:.2f} at best" in make_report(config).lead


def test_what_was_not_measured_is_said_to_be_missing(config: RerankingExperiment) -> None:
    assert all(isinstance(table, Missing) for table in tables(config).values())
    assert report_step(config).inputs == []
