from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics import bootstrap
from fairseq_ext.metrics.comparison import read_comparisons
from fairseq_ext.metrics.records import read_records
from fairseq_ext.recipes.translation import comet
from fairseq_ext.recipes.translation.measurement import scoring_step
from tests.recipes.translation.small_experiment import NEWS, REFERENCES, write_experiment

TRANSLATIONS = {
    "translations/mix": {"law": ["das", "alle", "der"], "med": REFERENCES["med"]},
    "translations/gad@1": REFERENCES,
    "extra/gad@1": {"NEWS": NEWS},
}
# Scores by the length of the translation, and writes down that it was called.
STAND_IN = """#!{python}
import json, sys
samples = [json.loads(line) for line in sys.stdin]
with open({calls!r}, "a") as file:
    print(json.dumps({{"arguments": sys.argv[1:], "samples": samples}}), file=file)
print(json.dumps({{"version": "0.0"}}))
for sample in samples[{skipped}:]:
    print(len(sample["mt"]) / 100)
sys.exit({status})
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The files of a COMET model, without a model in them."""
    folder = tmp_path / "wmt-tiny"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints/model.ckpt").write_text("weights")
    (folder / "hparams.yaml").write_text("class_identifier: regression_metric")
    return folder


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, skipped: int = 0, status: int = 0) -> Path:
    """Put a program in the place of COMET's interpreter; returns the file of its calls."""
    program, calls = folder / "python", folder / "calls"
    text = STAND_IN.format(python=sys.executable, calls=str(calls), skipped=skipped, status=status)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("COMET_PYTHON", str(program))
    return calls


def test_scores_are_means_of_sentence_scores(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(monkeypatch, tmp_path)
    monkeypatch.setattr(bootstrap, "MIN_SENTENCES", 2)
    evaluate = {"comet": str(model), "resamples": 99, "ood": {"NEWS": "news.tsv"}}
    config = write_experiment(tmp_path, TRANSLATIONS, evaluate)
    run_steps([scoring_step(config)])
    signatures = json.loads((config.work_dir / "scores/signatures.json").read_text(encoding="utf-8"))
    assert signatures["COMET"] == "model:wmt-tiny|scale:100|version:0.0"
    records = read_records(config.work_dir / "scores/records.jsonl")
    law, med = ([len(line) for line in REFERENCES[name]] for name in ("law", "med"))
    expected = {"law": sum(law) / 3, "AVG": (sum(law) / 3 + sum(med) / 2) / 2, "misclassified": law[1]}
    expected["ood:NEWS"] = sum(map(len, NEWS)) / 2
    assert {name: records.value("gad", "COMET", name) for name in expected} == pytest.approx(expected, abs=0.01)
    assert records.value("mix", "COMET", "law") == pytest.approx(10 / 3, abs=0.01)  # "das", "alle" and "der"
    compared = read_comparisons(config.work_dir / "scores/comparisons.jsonl")
    p = {each.domain: each.p for each in compared if (each.system, each.metric) == ("gad", "COMET")}
    assert [p[name] for name in ("law", "med", "classifier-error subset")] == [0.02, 1.0, None]
    arguments, samples = json.loads(calls.read_text().splitlines()[0]).values()
    assert arguments[-1] == str(model / "checkpoints/model.ckpt")
    assert samples[1] == {"src": f"source of: {REFERENCES['law'][1]}", "mt": "alle", "ref": REFERENCES["law"][1]}
    # Only what has changed is scored again.
    (config.work_dir / "translations/mix/law.de").write_text("x\ny\nz\n", encoding="utf-8")
    run_steps([scoring_step(config)])
    assert len(calls.read_text().splitlines()) == 3


@pytest.mark.parametrize(("skipped", "status"), [(0, 1), (1, 0)])
def test_a_failure_is_no_score(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, skipped: int, status: int
) -> None:
    stand_in(monkeypatch, tmp_path, skipped, status)
    config = write_experiment(tmp_path, TRANSLATIONS, {"comet": str(model)})
    with pytest.raises(InputError, match=str(model)):
        run_steps([scoring_step(config)])
    assert not (config.work_dir / "scores").exists()


def test_a_missing_environment_or_model_is_named(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMET_PYTHON", str(tmp_path / "absent/python"))
    with pytest.raises(InputError, match="absent/python"):
        run_steps([scoring_step(write_experiment(tmp_path, TRANSLATIONS, {"comet": str(model)}))])
    (model / "hparams.yaml").unlink()
    config = write_experiment(tmp_path, TRANSLATIONS, {"comet": str(model / "checkpoints/model.ckpt")})
    with pytest.raises(InputError, match=r"evaluate: comet: .*wmt-tiny/hparams\.yaml does not exist"):
        scoring_step(config)


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A COMET model of a few thousand random weights, made in COMET's own environment."""
    python = comet.comet_python()
    if not python.is_file():
        pytest.skip(f"COMET's environment is not there ({python}); scripts/comet.sh makes it")
    root = tmp_path_factory.mktemp("comet")
    text = root / "text"
    text.write_text("\n".join([*REFERENCES["law"], *REFERENCES["med"], *NEWS] * 20), encoding="utf-8")
    script = Path(__file__).with_name("tiny_comet.py")
    subprocess.run([python, "-I", "-W", "ignore", script, text, root / "tiny"], check=True, capture_output=True)
    return root / "tiny"


SAMPLES = [
    {"src": "the court is open", "mt": "das Gericht ist offen", "ref": "das Gericht ist heute offen"},
    {"src": "rights", "mt": "", "ref": "alle Rechte"},
    {"src": "two tablets every day", "mt": "zwei", "ref": "zwei Tabletten jeden Tag"},
]


@pytest.mark.slow
def test_comet_itself_scores_in_order_and_needs_all_weights(tiny_model: Path, capfd: pytest.CaptureFixture) -> None:
    checkpoint = tiny_model / "checkpoints/model.ckpt"
    scores, version = comet.score_sentences(checkpoint, SAMPLES)
    assert version == "2.2.7"
    assert len(set(scores)) == 3
    backwards, _ = comet.score_sentences(checkpoint, SAMPLES[::-1])
    assert backwards[::-1] == pytest.approx(scores, abs=1e-5)
    with pytest.raises(InputError):
        comet.score_sentences(tiny_model / "checkpoints/damaged.ckpt", SAMPLES)
    assert "lacks 1 weights, such as estimator.ff.0.weight" in capfd.readouterr().err
