from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import yaml
from fairseq_ext.experiments.translation import scores
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.report import make_report
from fairseq_ext.experiments.translation.scores import count_text, score_columns, score_outputs, scoring_step, summarise
from fairseq_ext.experiments.translation.test_sets import TestSets as Sets

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics import bootstrap
from fairseq_ext.metrics.corpus_metrics import METRICS, Metric, text_metrics
from fairseq_ext.report.content import Picture, Table
from fairseq_ext.report.page import signed
from tests.experiments.translation.small_experiment import NEWS, REFERENCES, write_experiment

LAW = ["the court is open today", "all rights are reserved here"]
MED = ["take two tablets every day", "keep out of reach of children"]
TESTS = Sets(
    domains=["law", "med"],
    extra=["ood:NEWS"],
    sources={"law": LAW, "med": MED, "ood:NEWS": LAW},
    references={"law": LAW, "med": MED, "ood:NEWS": LAW},
    is_misclassified={"law": np.array([False, True]), "med": np.array([False, False])},
    train_sizes={"law": 300, "med": 100},
    reference_files={},
)


def chrf_columns(translations: dict[str, list[str]], tests: Sets = TESTS) -> dict[str, float]:
    chrf = text_metrics(["chrF"])
    (columns,) = score_columns(count_text(chrf, [translations], tests)["chrF"], chrf["chrF"], tests)
    return {name: float(column[0]) for name, column in columns.items()}


def test_perfect_translations_score_100_everywhere() -> None:
    metrics = text_metrics(METRICS)
    counts = count_text(metrics, [TESTS.references], TESTS)
    assert list(counts) == ["chrF", "chrF++", "BLEU", "TER"]
    for name, metric in metrics.items():
        (columns,) = score_columns(counts[name], metric, TESTS)
        assert list(columns) == ["law", "med", "AVG", "wAVG", "misclassified", "ood:NEWS"]
        assert np.concatenate(list(columns.values())) == pytest.approx(np.full(6, 0 if name == "TER" else 100))


def test_scores_are_sacrebleus_and_averages_are_plain_and_weighted() -> None:
    hypotheses = {"law": ["the court is closed today", LAW[1]], "med": ["take one tablet a day", "keep away"]}
    columns = chrf_columns(hypotheses)
    law, med = (sacrebleu.corpus_chrf(hypotheses[d], [TESTS.references[d]]).score for d in ("law", "med"))
    assert (columns["law"], columns["med"]) == (law, med)
    assert columns["AVG"] == pytest.approx((law + med) / 2)
    assert columns["wAVG"] == pytest.approx(0.75 * law + 0.25 * med)
    assert columns["misclassified"] == 100.0  # only the second law sentence counts
    assert "ood:NEWS" not in columns


def test_misclassified_sentences_of_all_domains_are_one_corpus() -> None:
    wrong = {"law": np.array([True, False]), "med": np.array([False, True])}
    tests = Sets(**{**vars(TESTS), "is_misclassified": wrong})
    hypotheses = {"law": ["the court", "x"], "med": ["y", "out of children"]}
    expected = sacrebleu.corpus_chrf(["the court", "out of children"], [[LAW[0], MED[1]]]).score
    assert chrf_columns(hypotheses, tests)["misclassified"] == expected


@pytest.mark.parametrize("wrong", [None, {"law": np.array([False, False]), "med": np.array([False, False])}])
def test_without_mistakes_nothing_is_misclassified(wrong: dict | None) -> None:
    columns = chrf_columns({"law": LAW, "med": MED}, Sets(**{**vars(TESTS), "is_misclassified": wrong}))
    assert list(columns) == ["law", "med", "AVG", "wAVG"]


def test_a_run_without_all_domains_has_no_averages() -> None:
    assert list(chrf_columns({"med": MED, "ood:NEWS": LAW})) == ["med", "ood:NEWS"]


def test_several_runs_give_mean_and_sample_deviation() -> None:
    runs = [{"AVG": np.array([score]), "law": np.array([1.0])} for score in (40.0, 42.0, 47.0)]
    figures = summarise([*runs[:2], {"AVG": runs[2]["AVG"]}], None)
    # Squares of -3, -1 and 4 over 3 - 1.
    expected = {"mean": 43.0, "sd": round(13**0.5, 2), "values": [40.0, 42.0, 47.0], "p": None}
    assert figures == {"AVG": expected}  # not all runs have law
    assert summarise(runs[:1], None)["AVG"]["sd"] is None


def test_p_compares_means_over_runs() -> None:
    # One run of the system wins on every other resample, the other always and by more: so does their mean.
    baseline = [{"AVG": np.full(101, 40.0)}]
    runs = [{"AVG": 40 + (-1.0) ** np.arange(101)}, {"AVG": np.full(101, 45.0)}]
    assert summarise(runs, baseline)["AVG"]["p"] == pytest.approx(2 / 101, abs=1e-4)
    third = [{"AVG": np.full(101, 0.1)}]
    assert summarise(third * 3, third)["AVG"]["p"] == 1
    assert summarise(runs, [{"med": np.full(101, 1.0)}])["AVG"]["p"] is None


WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"]


def synthetic(num_better: int, num_worse: int) -> tuple[Sets, dict[str, list[str]], dict[str, list[str]]]:
    """Two systems whose 60 translations a domain differ in few sentences: a better word here, a worse one there."""
    generator = np.random.default_rng(3)
    references = {name: [" ".join(generator.choice(WORDS, size=6)) for _ in range(60)] for name in ("law", "med")}
    base = {name: [line.rsplit(" ", 1)[0] + " xxxx" for line in lines] for name, lines in references.items()}
    other = {
        name: [
            references[name][i] if i < num_better else "yyyy " + line if i < num_better + num_worse else line
            for i, line in enumerate(lines)
        ]
        for name, lines in base.items()
    }
    sizes = {"law": 1, "med": 1}
    return Sets(["law", "med"], [], references, references, None, sizes, {}), base, other


def p_of_second(tests: Sets, base: dict, other: dict, resamples: int = 300) -> dict[str, dict[str, float]]:
    outputs, _ = score_outputs(
        {"base": ["base"], "other": ["other"]},
        count_text(text_metrics(), [base, other], tests),
        text_metrics(),
        tests,
        baseline="base",
        resamples=resamples,
        seed=1,
    )
    assert all(figure["p"] is None for metric in text_metrics() for figure in outputs["base"][metric].values())
    return {m: {column: f["p"] for column, f in outputs["other"][m].items()} for m in text_metrics()}


def test_equal_systems_do_not_differ() -> None:
    tests, base, _ = synthetic(0, 0)
    for row in p_of_second(tests, base, base).values():
        assert row == dict.fromkeys(["law", "med", "AVG", "wAVG"], 1.0)


def test_better_in_many_sentences_is_significant_and_so_is_worse() -> None:
    tests, base, other = synthetic(30, 0)
    ps = p_of_second(tests, base, other)
    for row in ps.values():
        assert max(row.values()) < 0.01
    assert p_of_second(tests, other, base) == ps


def test_better_here_and_worse_there_is_not_significant() -> None:
    tests, base, other = synthetic(1, 2)
    assert min(p_of_second(tests, base, other)["chrF"].values()) > 0.1


def test_resampling_every_domain_finds_in_the_average_what_no_domain_shows_alone() -> None:
    tests, base, other = synthetic(3, 0)
    for name in ("law", "med"):
        other[name][10] = "yyyy " + other[name][10]
    row = p_of_second(tests, base, other, resamples=2000)["chrF"]
    assert row["AVG"] < min(row["law"], row["med"])


PERFECT = {f"translations/{run}": REFERENCES for run in ("mix", "gad@1", "gad@2")}
EVALUATE = {"resamples": 50}


def score(config: TranslationExperiment) -> dict:
    run_steps([scoring_step(config)])
    return json.loads((config.work_dir / "scores/scores.json").read_text(encoding="utf-8"))


def changed(**lines: str) -> dict[str, list[str]]:
    """The references, but for the first line of some domains."""
    return {name: [lines.get(name, own[0]), *own[1:]] for name, own in REFERENCES.items()}


def test_a_record_has_all_runs_domains_and_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "MIN_SENTENCES", 1)
    translations = {
        "translations/mix": changed(law="das Gericht"),
        "translations/gad@1": changed(law="das Gericht"),
        "translations/gad@2": REFERENCES,
        "translations/ft@law": {"law": REFERENCES["law"]},
        "translations/ft@med": {"med": ["zwei", "von"]},
        "extra/mix": {"NEWS": NEWS},
        "extra/gad@1": {"NEWS": ["x", "y"]},
        "extra/gad@2": {"NEWS": NEWS},
    }
    config = write_experiment(tmp_path, translations, {**EVALUATE, "ood": {"NEWS": "news.tsv"}})
    record = score(config)
    exact = sacrebleu.corpus_chrf(translations["translations/mix"]["law"], [REFERENCES["law"]]).score
    law = round(exact, 2)
    outputs = record["outputs"]
    assert {name: output["runs"] for name, output in outputs.items()} == {
        "mix": ["mix"],
        "gad": ["gad@1", "gad@2"],
        "ft": ["ft"],
    }
    assert outputs["mix"]["chrF"]["law"] == {"mean": law, "sd": None, "values": [exact], "p": None}
    gad = outputs["gad"]["chrF"]
    assert gad["law"]["values"] == [exact, 100.0]
    assert gad["law"]["mean"] == pytest.approx((law + 100) / 2, abs=0.011)
    assert gad["law"]["sd"] == pytest.approx((100 - law) / 2**0.5, abs=0.011)
    assert gad["ood:NEWS"]["mean"] == 50.0
    assert gad["med"]["p"] == 1.0
    # The runs ft@law and ft@med are one: the averages are over both.
    ft = outputs["ft"]["chrF"]
    assert ft["law"]["mean"] == 100
    assert ft["AVG"]["mean"] == pytest.approx((ft["law"]["mean"] + ft["med"]["mean"]) / 2, abs=0.011)
    assert ft["wAVG"]["mean"] == pytest.approx((3 * ft["law"]["mean"] + ft["med"]["mean"]) / 4, abs=0.011)
    assert ft["misclassified"]["mean"] == 100.0
    assert "ood:NEWS" not in ft
    described = {
        key: record[key] for key in ("domains", "train_sizes", "test_sizes", "extra_sizes", "num_misclassified")
    }
    assert described == {
        "domains": ["law", "med"],
        "train_sizes": {"law": 3, "med": 1},
        "test_sizes": {"law": 3, "med": 2},
        "extra_sizes": {"ood:NEWS": 2},
        "num_misclassified": 1,
    }
    assert record["baseline"] == "mix"
    assert record["comet"] == "not run: no model"
    assert record["missing"] == []
    assert list(record["signatures"]) == ["chrF", "BLEU"]
    gain = record["outputs"]["gad"]["chrF"]["AVG"]["mean"] - record["outputs"]["mix"]["chrF"]["AVG"]["mean"]
    assert f"<title>gad, AVG: {signed(gain)}</title>" in (config.work_dir / "scores/gains.svg").read_text()


def test_what_is_missing_is_left_out_and_said(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    translations = {"translations/gad@2": REFERENCES, "translations/ft@med": {"med": REFERENCES["med"]}}
    config = write_experiment(tmp_path, translations, {**EVALUATE, "baseline": "mix", "ood": {"NEWS": "news.tsv"}})
    record = score(config)
    missing = [
        "translations/mix",
        "extra/mix",
        "translations/gad@1",
        "extra/gad@1",
        "extra/gad@2",
        "translations/ft@law",
    ]
    assert record["missing"] == missing
    assert f"without {', '.join(missing)}" in capfd.readouterr().err
    assert record["outputs"]["gad"]["runs"] == ["gad@2"]
    assert list(record["outputs"]["ft"]["chrF"]) == ["med"]
    assert all(figure["p"] is None for figure in record["outputs"]["gad"]["chrF"].values())
    assert not (config.work_dir / "scores/gains.svg").exists()


def test_the_file_chooses_the_metrics(tmp_path: Path) -> None:
    translations = {**PERFECT, "translations/mix": changed(law="das Gericht", med="zwei")}
    config = write_experiment(tmp_path, translations, {**EVALUATE, "metrics": ["TER", "BLEU"]})
    record = score(config)
    assert list(record["signatures"]) == ["BLEU", "TER"]
    own = translations["translations/mix"]["law"]
    expected = sacrebleu.corpus_ter(own, [REFERENCES["law"]]).score
    assert record["outputs"]["mix"]["TER"]["law"]["mean"] == pytest.approx(expected, abs=0.0051)
    assert record["outputs"]["gad"]["TER"]["law"]["mean"] == 0
    assert (config.work_dir / "scores/gains.svg").is_file()
    assert "| gad | 0.0 ± 0.00" in (config.work_dir / "scores/table.md").read_text()


class ExactMatches:
    """The share of sentences that are like their reference; in no other file than this one."""

    signature = "exact"

    def count(self, hypotheses: list[list[str]], references: list[str]) -> list[np.ndarray]:
        return [np.array([[own == right, 1] for own, right in zip(h, references, strict=True)]) for h in hypotheses]

    def score(self, sums: list[float]) -> float:
        return 100 * sums[0] / sums[1]


@pytest.mark.parametrize("is_error", [False, True])
def test_one_entry_makes_a_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_error: bool) -> None:
    monkeypatch.setitem(METRICS, "exact", Metric(ExactMatches(), is_error))
    monkeypatch.setattr(bootstrap, "MIN_SENTENCES", 1)
    translations = {**PERFECT, "translations/mix": changed(law="das Gericht", med="zwei")}
    config = write_experiment(tmp_path, translations, {**EVALUATE, "metrics": ["exact"]}, teacher=False)
    record = score(config)
    assert record["outputs"]["mix"]["exact"]["law"]["mean"] == 66.67
    assert record["outputs"]["gad"]["exact"]["law"]["mean"] == 100
    assert (config.work_dir / "scores/gains.svg").is_file()
    report = make_report(config)
    best, its_score = ("mix", "58.3") if is_error else ("gad", "100.0")
    assert f"The best system that needs no domain is {best}, with exact {its_score}." in report.lead
    blocks = [block for section in report.sections for block in section.blocks]
    (table,) = [b for b in blocks if isinstance(b, Table) and b.title == "Translation quality: exact"]
    rows = [row for _, rows in table.groups for row in rows]
    assert not any(row.cells[0].is_best for row in rows)
    (picture,) = [b for b in blocks if isinstance(b, Picture) and b.name == "gains"]
    assert f"exact points {'below' if is_error else 'over'} mix" in [shape.text for shape in picture.shapes]
    sign = "−" if is_error else "+"
    assert any(shape.text.startswith(f"gad, law: {sign}33.3") for shape in picture.shapes)


def test_scores_follow_translations_and_are_the_same_each_time(tmp_path: Path) -> None:
    translations = {**PERFECT, "translations/gad@1": changed(law="das Gericht", med="zwei")}
    config = write_experiment(tmp_path, translations, EVALUATE)
    first = score(config)
    assert first["num_misclassified"] == 1
    shutil.rmtree(config.work_dir / "scores")
    assert score(config) == first
    work = config.work_dir / "translations"
    shutil.copytree(work / "gad@2", work / "gad@1", dirs_exist_ok=True)
    assert score(config)["outputs"]["gad"]["chrF"]["AVG"]["sd"] == 0
    shutil.rmtree(work / "gad@2")
    assert score(config)["missing"] == ["translations/gad@2", "translations/ft@law", "translations/ft@med"]


def test_an_output_that_is_new_in_the_file_is_missed(tmp_path: Path) -> None:
    assert "translations/ft@med" in score(write_experiment(tmp_path, PERFECT, EVALUATE))["missing"]
    path = tmp_path / "small.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    settings["translate"]["outputs"]["other"] = {"system": "mix"}
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    assert score(load_config(path))["missing"][-1] == "translations/other"


def test_unequal_lengths_name_both_files(tmp_path: Path) -> None:
    translations = {"translations/mix": {"law": REFERENCES["law"], "med": REFERENCES["med"][:1]}}
    config = write_experiment(tmp_path, translations, EVALUATE)
    with pytest.raises(InputError, match=r"translations/mix/med\.de: has 1 lines for the 2 of .*splits/med/test\.de"):
        run_steps([scoring_step(config)])


def test_a_model_that_says_nothing_is_scored(tmp_path: Path) -> None:
    blank = {name: [""] * len(lines) for name, lines in REFERENCES.items()}
    record = score(write_experiment(tmp_path, {**PERFECT, "translations/mix": blank}, EVALUATE))
    assert record["outputs"]["mix"]["chrF"]["AVG"]["mean"] == 0
    assert record["outputs"]["gad"]["chrF"]["AVG"]["mean"] == 100


def test_nothing_translated_is_one_line(tmp_path: Path) -> None:
    config = write_experiment(tmp_path, {}, EVALUATE)
    with pytest.raises(InputError, match="nothing is translated yet"):
        run_steps([scoring_step(config)])


def test_without_a_teacher_there_is_no_number_of_mistakes(tmp_path: Path) -> None:
    config = write_experiment(tmp_path, PERFECT, EVALUATE, teacher=False)
    record = score(config)
    assert record["num_misclassified"] is None
    assert list(record["outputs"]["mix"]["BLEU"]) == ["law", "med", "AVG", "wAVG"]


def test_the_command_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    config = write_experiment(tmp_path, PERFECT, EVALUATE)
    scores.main([str(config.path)])
    printed = capsys.readouterr()
    assert "| gad | 100.0 ± 0.00 |" in printed.out
    assert "COMET: not run: no model." in printed.out
    assert "BLEU: nrefs:1" in printed.err
