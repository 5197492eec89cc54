"""tune, apply and report on made-up lists, with models that know more than the lists."""

from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.comparison import read_comparisons
from fairseq_ext.metrics.records import read_records
from fairseq_ext.recipes.reranking.tuning import Weights
from tests.recipes import small_lm
from tests.recipes.reranking.made_up import as_moses, make_list
from tests.verbs import verb

rerank = verb("rerank")


@pytest.fixture(autouse=True)
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lists with references in the current directory."""
    monkeypatch.chdir(tmp_path)
    for name, seed in (("tune", 1), ("test", 2)):
        nbest, references, _ = make_list(seed, sentences=30)
        (tmp_path / f"{name}.nbest").write_text(as_moses(nbest), encoding="utf-8")
        (tmp_path / f"{name}.ref").write_text("".join(f"{line}\n" for line in references), encoding="utf-8")


def tune(*extra: str, output: str = "w.json") -> Weights:
    rerank(["tune", "tune.nbest", "--references", "tune.ref", "--output", output, "--restarts", "3", *extra])
    return Weights.read(Path(output))


def report(*weights: str) -> None:
    files = ["test.nbest", "--references", "test.ref", "--groups", "groups", "--output", "out"]
    rerank(["report", *files, "--weights", *weights])


def test_tuning_gains_and_is_the_same_again() -> None:
    weights = tune("--word-count")
    assert list(weights.weights) == ["model", "f1", "f2", "score", "words"]
    scores = weights.about["BLEU"]
    assert scores["tuned"] > scores["first_best"]
    assert tune("--word-count", output="again.json") == weights
    rerank(["apply", "test.nbest", "--weights", "w.json", "--word-count", "--output", "best.txt"])
    nbest, _, _ = make_list(2, sentences=30)
    lines = Path("best.txt").read_text(encoding="utf-8").splitlines()
    assert all(line in own for line, own in zip(lines, nbest.texts, strict=True))


def test_report_has_groups_and_every_file_of_weights(capsys: pytest.CaptureFixture[str]) -> None:
    Weights(weights={"f1": 1.0}).write(Path("one.json"))
    Weights(weights={"f2": 1.0}).write(Path("two.json"))
    Path("groups").write_text("".join(f"{'law' if n < 10 else 'med'}\n" for n in range(30)))
    report("one.json", "two.json", "--also", "perfect=test.ref", "--resamples", "30")
    records = read_records(Path("out/records.jsonl"))
    assert records.systems("BLEU") == ["first-best", "perfect", "one", "two", "oracle"]
    assert {each.domain: each.n for each in records if each.system == "perfect"} == {"all": 30, "law": 10, "med": 20}
    assert records.by_run("perfect", "BLEU", "med") == {"perfect": pytest.approx(100)}
    pairs = {(each.system, each.baseline) for each in read_comparisons(Path("out/comparisons.jsonl"))}
    assert pairs == {
        ("perfect", "first-best"), ("one", "first-best"), ("two", "first-best"), ("one", "perfect"), ("two", "perfect"),
        ("two", "one"),
    }  # fmt: skip
    assert Path("out/report.md").read_text(encoding="utf-8") == capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["--lm", "a=c"], "--lm a=c: "),
        (["--arpa", "a=c", "--lm", "a=c:d"], "--arpa a: "),
        (["--arpa", "a=c", "--lm-subwords", "b=law"], "--lm-subwords: "),
        (["--arpa", "a=none.arpa"], "a: "),
        (["--references", "short"], "short: "),
    ],
)
def test_wrong_options_are_named(arguments: list[str], place: str) -> None:
    Path("short").write_text("one\n")
    with pytest.raises(InputError, match=f"^{place}"):
        tune(*arguments)


@pytest.mark.parametrize(("name", "place"), [("oracle", "--weights"), ("one", "groups, line 1")])
def test_rows_and_groups_of_a_report_need_names_of_their_own(name: str, place: str) -> None:
    Path("groups").write_text("all\n" * 30)
    Weights(weights={"f1": 1.0}).write(Path(f"{name}.json"))
    with pytest.raises(InputError, match=f"^{place}"):
        report(f"{name}.json")


@pytest.mark.slow
def test_a_language_model_is_a_feature_and_is_asked_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = small_lm.make_data(tmp_path / "data")
    small_lm.make_checkpoint(tmp_path / "lm.pt", data)
    features = ["--lm", "tiny=lm.pt:data", "--cpu"]
    assert tune(*features).sources.keys() == {"tiny"}
    assert "up to date" not in capfd.readouterr().err
    assert tune(*features, output="again.json").weights.keys() == {"model", "f1", "f2", "score", "tiny"}
    assert "up to date" in capfd.readouterr().err
