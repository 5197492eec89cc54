"""Made-up lists are re-ranked by n-grams of each domain: golden records, one rendered page, and the comparisons."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairseq_ext.corpora.text_files import write_lines
from fairseq_ext.engine.steps import run_steps
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.records import read_records
from fairseq_ext.recipes.reranking.config import Reranking
from fairseq_ext.recipes.reranking.stages import stages_of
from tests.recipes.reranking.small_experiment import TRANSLATION, load, write_made_up_lists

# BLEU by row and set.
GOLDEN = {
    ("first-best", "all"): 38.93622535374174,
    ("first-best", "bank"): 40.6988409410721,
    ("first-best", "garden"): 30.871126367317046,
    ("mix", "all"): 46.340717505284125,
    ("mix", "bank"): 48.97911766053693,
    ("mix", "garden"): 34.72086803935371,
    ("list", "all"): 39.75727453599007,
    ("list", "bank"): 40.04851392916276,
    ("list", "garden"): 41.589277928505304,
    ("kneser-ney", "all"): 35.38789528302326,
    ("kneser-ney", "bank"): 34.77638058639293,
    ("kneser-ney", "garden"): 41.589277928505304,
    ("oracle", "all"): 55.57136843165595,
    ("oracle", "bank"): 56.73781007154448,
    ("oracle", "garden"): 51.00713842595019,
}


def run(config: Reranking, *names: str) -> None:
    for stage in stages_of(config):
        if stage.name in names:
            run_steps(stage.steps())


def made_up(folder: Path) -> Reranking:
    write_made_up_lists(folder)
    given = {"work_dir": str(folder / "work"), **TRANSLATION, "outputs": ["mix"]}
    return load(folder, translation=given, train={})


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Reranking:
    config = made_up(tmp_path_factory.mktemp("lists"))
    run(config, "kneser-ney", "rerank", "report")
    return config


def test_records_are_always_the_same(experiment: Reranking) -> None:
    records = read_records(experiment.work_dir / "report/records.jsonl")
    assert {(each.system, each.domain): each.value for each in records if each.metric == "BLEU"} == pytest.approx(
        GOLDEN
    )
    found = {each.domain: (each.value, each.n) for each in records if each.metric == "perplexity"}
    assert found == {"bank": (pytest.approx(3.765608422801691), 533), "garden": (pytest.approx(4.960744749905631), 133)}


def test_the_page_has_table_5_and_comparisons(experiment: Reranking) -> None:
    text = (experiment.work_dir / "report/report.md").read_text()
    assert re.findall(r"^### Table 5\. (\w+)", text, re.MULTILINE) == ["BLEU", "chrF"]
    # The oracle is never the best.
    assert "| mix | **46.34** | **48.98** | 34.72 |" in text
    assert "| oracle | 55.57 | 56.74 | 51.01 |" in text
    assert "| kneser-ney | list | BLEU | bank | −5.27 | " in text
    assert "| kneser-ney | list | BLEU | garden | +0.00 | – | not tested | 10 |" in text


def test_lists_of_another_test_set_are_refused(tmp_path: Path) -> None:
    config = made_up(tmp_path)
    write_lines(tmp_path / "work/splits/bank/test.de", ["w1"])
    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        run(config, "kneser-ney", "rerank")
