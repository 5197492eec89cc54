import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import run_steps
from fairseq_ext.experiments.metrics.records import read_records
from fairseq_ext.experiments.translation import comet
from fairseq_ext.experiments.translation.measure import scoring_step
from fairseq_ext.text.text_files import write_lines
from tests.experiments.translation.small_experiment import NEWS, REFERENCES, write_experiment

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
    print(json.dumps([sys.argv[-1], samples]), file=file)
print(json.dumps({{"version": "0.0"}}))
for sample in samples:
    print(len(sample["mt"]) / 100)
sys.exit({status})
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The files of a COMET model, without a model in them."""
    write_lines(tmp_path / "wmt-tiny/checkpoints/model.ckpt", ["weights"])
    write_lines(tmp_path / "wmt-tiny/hparams.yaml", ["class_identifier: regression_metric"])
    return tmp_path / "wmt-tiny"


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, status: int = 0) -> Path:
    """Put a program in the place of COMET's interpreter; returns the file of its calls."""
    program, calls = folder / "python", folder / "calls"
    text = STAND_IN.format(python=sys.executable, calls=str(calls), status=status)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("COMET_PYTHON", str(program))
    return calls


def test_scores_are_means_of_sentence_scores(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(monkeypatch, tmp_path)
    config = write_experiment(tmp_path, TRANSLATIONS, {"comet": str(model), "ood": {"NEWS": "news.tsv"}})
    run_steps([scoring_step(config)])
    signatures = json.loads((config.work_dir / "scores/signatures.json").read_text(encoding="utf-8"))
    assert signatures["COMET"] == "model:wmt-tiny|scale:100|version:0.0"
    records = read_records(config.work_dir / "scores/records.jsonl")
    law, med, news = (statistics.fmean(map(len, lines)) for lines in (*REFERENCES.values(), NEWS))
    expected = {"law": law, "AVG": (law + med) / 2, "classifier errors": len(REFERENCES["law"][1]), "ood:NEWS": news}
    assert {name: records.value("gad", "COMET", name) for name in expected} == pytest.approx(expected, abs=0.01)
    assert records.value("mix", "COMET", "law") == pytest.approx(10 / 3, abs=0.01)  # "das", "alle" and "der"
    checkpoint, samples = json.loads(calls.read_text().splitlines()[0])
    assert checkpoint == str(model / "checkpoints/model.ckpt")
    assert samples[1] == {"src": f"source of: {REFERENCES['law'][1]}", "mt": "alle", "ref": REFERENCES["law"][1]}
    # Only what has changed is scored again.
    (config.work_dir / "translations/mix/law.de").write_text("x\ny\nz\n", encoding="utf-8")
    run_steps([scoring_step(config)])
    assert len(calls.read_text().splitlines()) == 3


def test_failures_and_what_is_missing_are_named(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample, checkpoint = {"src": "a", "mt": "b", "ref": "c"}, model / "checkpoints/model.ckpt"
    stand_in(monkeypatch, tmp_path, status=1)
    with pytest.raises(InputError, match=str(checkpoint)):
        comet.score_sentences(checkpoint, [sample])
    monkeypatch.setenv("COMET_PYTHON", str(tmp_path / "absent/python"))
    with pytest.raises(InputError, match="absent/python"):
        comet.score_sentences(checkpoint, [sample])
    (model / "hparams.yaml").unlink()
    with pytest.raises(InputError, match=r"^my.yaml: .*wmt-tiny/hparams\.yaml does not exist"):
        comet.checkpoint_of(str(checkpoint), "my.yaml")


SAMPLES = [
    {"src": "the court is open", "mt": "das Gericht ist offen", "ref": "das Gericht ist heute offen"},
    {"src": "rights", "mt": "", "ref": "alle Rechte"},
    {"src": "two tablets every day", "mt": "zwei", "ref": "zwei Tabletten jeden Tag"},
]


@pytest.mark.slow
@pytest.mark.skipif(not comet.comet_python().is_file(), reason="needs COMET's environment, of scripts/comet.sh")
def test_comet_itself_scores_in_order_and_needs_all_weights(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    text, script = tmp_path / "text", Path(__file__).with_name("tiny_comet.py")
    text.write_text("\n".join([*REFERENCES["law"], *REFERENCES["med"], *NEWS] * 20), encoding="utf-8")
    subprocess.run([comet.comet_python(), "-I", "-W", "ignore", script, text, tmp_path / "tiny"], check=True)
    checkpoint = tmp_path / "tiny/checkpoints/model.ckpt"
    scores, version = comet.score_sentences(checkpoint, SAMPLES)
    assert version == "2.2.7"
    assert len(set(scores)) == 3
    backwards, _ = comet.score_sentences(checkpoint, SAMPLES[::-1])
    assert backwards[::-1] == pytest.approx(scores, abs=1e-5)
    with pytest.raises(InputError):
        comet.score_sentences(checkpoint.with_name("damaged.ckpt"), SAMPLES)
    assert "lacks 1 weights, such as estimator.ff.0.weight" in capfd.readouterr().err
