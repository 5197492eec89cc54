"""Scores and comparisons of translations that are written by hand."""

from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import run_steps
from fairseq_ext.data.teacher_labels import write_probs
from fairseq_ext.experiments.metrics import bootstrap
from fairseq_ext.experiments.metrics.comparison import read_comparisons
from fairseq_ext.experiments.metrics.corpus_metrics import CometMetric
from fairseq_ext.experiments.metrics.records import Records, read_records, read_rows
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.examples import BETTER, WORSE, Example
from fairseq_ext.experiments.translation.measure import compare_outputs, read_tests, scoring_step
from fairseq_ext.experiments.translation.set_scores import TestSets as Sets
from fairseq_ext.experiments.translation.set_scores import score_columns
from tests.experiments.translation.small_experiment import NEWS, REFERENCES, write_experiment


def test_means_over_runs_are_compared() -> None:
    # One run wins on every other resample, the other always and by more: so does their mean.
    runs = [{"AVG": 40 + (-1.0) ** np.arange(101)}, {"AVG": np.full(101, 45.0)}]
    scores = {"chrF": {"one": runs, "base": [{"AVG": np.full(101, 40.0)}]}}
    tests = Sets(["law"], {}, {"law": ["a line"]}, {}, {"law": 300}, None)
    [found] = compare_outputs(scores, {"one": ["base"], "base": ["absent"]}, tests)
    assert (found.difference, found.p) == (3.0, pytest.approx(2 / 101, abs=1e-4))


def test_draws_depend_on_the_name_of_the_set() -> None:
    counts = CometMetric.count(list(range(40)))
    tests = Sets(["law", "med"], {}, {"law": [], "med": []}, {}, {"law": 1, "med": 1}, None)
    columns = score_columns({"law": counts, "med": counts}, CometMetric("m", "1"), tests, 20, seed=1)
    assert columns["law"][0] == columns["med"][0]
    assert not np.array_equal(columns["law"], columns["med"])


def test_general_text_is_the_mean_over_sets_of_no_domain() -> None:
    counts = {name: CometMetric.count([value] * 40) for name, value in (("law", 0.9), ("a", 0.2), ("b", 0.4))}
    tests = Sets(["law"], {}, dict.fromkeys(counts, ["line"] * 40), {}, {"law": 1}, None, ["a", "b"])
    columns = score_columns(counts, CometMetric("m", "1"), tests, 20, seed=1)
    assert columns["general text"] == pytest.approx(np.full(21, 30))
    assert tests.sizes["general text"] == 80
    assert "general text" not in score_columns(
        {"law": counts["law"], "a": counts["a"]}, CometMetric("m", "1"), tests, 2, 1
    )


EVALUATE = {"resamples": 50}


def score(config: Translation) -> Records:
    run_steps([scoring_step(config)])
    return read_records(config.work_dir / "scores/records.jsonl")


def test_records_have_all_runs_domains_and_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "MIN_SENTENCES", 1)
    changed = {**REFERENCES, "law": ["das Gericht", *REFERENCES["law"][1:]]}
    translations = {
        "translations/mix": changed,
        "translations/gad@1": changed,
        "translations/gad@2": REFERENCES,
        "translations/ft@law": {"law": REFERENCES["law"]},
        "translations/ft@med": {"med": ["zwei", "von"]},
        "extra/mix": {"NEWS": NEWS, "MINE": NEWS},
        "extra/gad@1": {"NEWS": ["x", "y"], "MINE": NEWS},
        "extra/gad@2": {"NEWS": NEWS, "MINE": NEWS},
    }
    sets = {"ood": {"NEWS": "news.tsv"}, "tests": {"MINE": "mine.tsv"}}
    config = write_experiment(tmp_path, translations, {**EVALUATE, **sets})
    records = score(config)
    exact = sacrebleu.corpus_chrf(changed["law"], [REFERENCES["law"]]).score
    assert records.by_run("gad", "chrF", "law") == {"gad@1": exact, "gad@2": 100}
    assert [record.n for record in records.of("mix", "chrF", "law")] == [3]
    assert records.by_run("gad", "chrF", "ood:NEWS") == {"gad@1": 0, "gad@2": 100}
    # The runs ft@law and ft@med are one: the averages are over both.
    assert [(record.run, record.seed) for record in records.of("ft", "chrF", "AVG")] == [("ft", None)]
    ft = {
        name: records.value("ft", "chrF", name)
        for name in ("law", "med", "AVG", "wAVG", "classifier errors", "ood:NEWS")
    }
    med = sacrebleu.corpus_chrf(["zwei", "von"], [REFERENCES["med"]]).score
    assert list(ft.values()) == [100, med, pytest.approx(50 + med / 2), pytest.approx(75 + med / 4), 100, None]
    sizes = {domain: records.by_run("", "test sentences", domain)[""] for domain in ("law", "med", "classifier errors")}
    assert sizes == {"law": 3, "med": 2, "classifier errors": 1}
    compared = read_comparisons(config.work_dir / "scores/comparisons.jsonl")
    [gad] = [each for each in compared if (each.system, each.metric, each.domain) == ("gad", "chrF", "AVG")]
    assert gad.baseline == "mix"
    assert gad.difference == pytest.approx((100 - exact) / 4)
    found = {each.domain for each in compared if each.system == "gad"}
    assert found == {"law", "med", "AVG", "classifier errors", "ood:NEWS", "test:MINE", "general text"}
    examples = read_rows(config.work_dir / "scores/examples.jsonl", Example)
    assert {each.system for each in examples} == {"ft"}  # the first run of gad translates as the base does
    assert records.by_run("gad", WORSE) == {"": 0}
    assert records.by_run("ft", BETTER) == {"": 1}
    # The user's sets are not general text.
    assert records.value("gad", "chrF", "general text") == records.value("gad", "chrF", "ood:NEWS") == 50
    assert records.value("gad", "chrF", "test:MINE") == 100


def test_what_a_model_of_one_domain_forgets_is_scored_beside_the_models_of_all(tmp_path: Path) -> None:
    other = {name: ["x", *lines[1:]] for name, lines in REFERENCES.items()}
    translations = {
        "translations/mix": REFERENCES,
        "translations/ft@law": {"law": REFERENCES["law"], "med": other["med"]},
        "translations/ft@med": {"law": other["law"], "med": REFERENCES["med"]},
        "extra/mix": {"NEWS": NEWS},
        "extra/ft@law": {"NEWS": NEWS},
        "extra/ft@med": {"NEWS": ["x", "y"]},
    }
    config = write_experiment(tmp_path, translations, {**EVALUATE, "forgetting": True, "ood": {"NEWS": "news.tsv"}})
    records = score(config)
    sets = ("law", "med", "ood:NEWS")
    assert [records.value("ft", "chrF", name) for name in sets] == [100, 100, None]
    [law, med] = [[records.value(f"ft@{name}", "chrF", each) for each in sets] for name in ("law", "med")]
    assert law == [100, pytest.approx(sacrebleu.corpus_chrf(other["med"], [REFERENCES["med"]]).score), 100]
    assert med == [pytest.approx(sacrebleu.corpus_chrf(other["law"], [REFERENCES["law"]]).score), 100, 0]
    compared = read_comparisons(config.work_dir / "scores/comparisons.jsonl")
    assert {(each.system, each.baseline) for each in compared} == {
        (f"ft{name}", "mix") for name in ("", "@law", "@med")
    }


def test_scores_are_made_again_when_translations_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = {f"translations/{run}": REFERENCES for run in ("mix", "gad@1")}
    assert list(score(write_experiment(tmp_path, runs, EVALUATE)).by_run("gad", "chrF", "AVG")) == ["gad@1"]
    assert "omits translations/gad@2, translations/ft@law, translations/ft@med" in capsys.readouterr().err
    runs["translations/gad@2"] = REFERENCES
    assert list(score(write_experiment(tmp_path, runs, EVALUATE)).by_run("gad", "chrF", "AVG")) == ["gad@1", "gad@2"]


def test_nothing_translated_and_unfit_translations_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing is translated yet"):
        score(write_experiment(tmp_path, {}, EVALUATE))
    short = {"translations/mix": {**REFERENCES, "law": ["ein Satz"]}}
    with pytest.raises(InputError, match=r"translations/mix/law\.de: has 1 lines, but .*splits/law/test\.de"):
        score(write_experiment(tmp_path, short, EVALUATE))
    config = write_experiment(tmp_path, {}, {})
    write_probs(config.work_dir / "teacher/med/test.npy", np.array([[0.0, 1.0]]))
    with pytest.raises(InputError, match=r"teacher/med/test\.npy: has 1 rows for 2 sentences"):
        read_tests(config)
