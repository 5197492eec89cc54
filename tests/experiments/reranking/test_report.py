"""Made-up lists are re-ranked by n-grams of each domain: golden records, one rendered page, and the comparisons."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import run_steps
from fairseq_ext.experiments.metrics.records import read_records
from fairseq_ext.experiments.registry import load_experiment
from fairseq_ext.experiments.reranking.config import Reranking
from fairseq_ext.experiments.reranking.measure import SentenceModel, score_texts
from fairseq_ext.experiments.reranking.stages import RerankingRecipe
from fairseq_ext.text.text_files import write_lines
from tests.experiments.reranking.small_experiment import TRANSLATION, write_file, write_made_up_lists

# BLEU of all, bank and garden.
GOLDEN = {
    "first-best": [38.93622535374174, 40.6988409410721, 30.871126367317046],
    "mix": [46.340717505284125, 48.97911766053693, 34.72086803935371],
    "list": [39.73004603287356, 39.99423067373073, 41.589277928505304],
    "kneser-ney": [38.976391411342334, 39.131182976048656, 41.589277928505304],
    "oracle": [55.57136843165595, 56.73781007154448, 51.00713842595019],
}


def run(config: Reranking, *names: str) -> None:
    for stage in RerankingRecipe(config).stages():
        if stage.name in names:
            run_steps(stage.steps())


def made_up(folder: Path) -> Reranking:
    write_made_up_lists(folder)
    given = {"work_dir": str(folder / "work"), **TRANSLATION, "outputs": ["mix"]}
    return load_experiment(write_file(folder, translation=given, train={})).experiment


def test_the_report_is_always_the_same(tmp_path: Path) -> None:
    config = made_up(tmp_path)
    run(config, "kneser-ney", "rerank", "report")
    records = read_records(config.work_dir / "report/records.jsonl")
    scores = {row: [each.value for each in records if (each.system, each.metric) == (row, "BLEU")] for row in GOLDEN}
    assert scores == {row: pytest.approx(golden) for row, golden in GOLDEN.items()}
    found = {each.domain: (each.value, each.n) for each in records if each.metric == "perplexity"}
    assert found == {"bank": (pytest.approx(3.765608422801691), 533), "garden": (pytest.approx(4.960744749905631), 133)}
    text = (config.work_dir / "report/report.md").read_text()
    assert re.findall(r"^### (\w+) of translations", text, re.MULTILINE) == ["BLEU", "chrF"]
    # The oracle is never the best.
    assert "| mix | **46.34** | **48.98** | 34.72 |" in text
    assert "| oracle | 55.57 | 56.74 | 51.01 |" in text
    assert "| kneser-ney | list | BLEU | bank | −0.86 | " in text
    assert "| kneser-ney | list | BLEU | garden | +0.00 | – | not tested | 10 |" in text


def test_lists_of_another_test_set_are_refused(tmp_path: Path) -> None:
    config = made_up(tmp_path)
    write_lines(tmp_path / "work/splits/bank/test.de", ["w1"])
    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        run(config, "kneser-ney", "rerank")


def test_without_the_translation_experiment_the_file_and_key_are_named(tmp_path: Path) -> None:
    config = load_experiment(write_file(tmp_path)).experiment
    with pytest.raises(InputError, match=r"reranking\.yaml: translation: work_dir: .*fairseq-ext run"):
        _ = config.domains
    [translate] = [stage for stage in RerankingRecipe(config).stages() if stage.name == "translate"]
    with pytest.raises(InputError, match=r"reranking\.yaml: translation: run: 'mix'"):
        translate.steps()


def test_scores_are_kept_by_content(tmp_path: Path) -> None:
    path, folder, scored = tmp_path / "model", tmp_path / "scores", list[list[str]]()
    path.write_text("one")

    def score(texts: Sequence[str]) -> np.ndarray:
        scored.append(list(texts))
        return np.array([float(len(text)) for text in texts])

    model = SentenceModel("kn", [path], score)
    assert score_texts(model, ["aa", "b", "aa", "cccc"], folder).tolist() == [2, 1, 2, 4]
    assert score_texts(model, ["b", "b"], folder).tolist() == [1, 1]  # another list
    assert score_texts(model, ["aa", "b", "cccc", "aa"], folder).tolist() == [2, 1, 4, 2]  # the same texts
    path.write_text("two")
    score_texts(model, ["b"], folder)
    assert scored == [["aa", "b", "cccc"], ["b"], ["b"]]
