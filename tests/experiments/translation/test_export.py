"""Exporting a run of an experiment, and translating with what is trained of it."""

import shutil
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.origin import Origin
from fairseq_ext.data.teacher_labels import write_teacher_record
from fairseq_ext.experiments.metrics.records import Record, write_rows
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.export import trained_outputs, trained_run
from fairseq_ext.serve.runtime.manifest import verify
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.text.normalise import Normalise
from tests import toy, toy_systems
from tests.serve.graphs.small_systems import write_classifier
from tests.small_corpus import write_config
from tests.verbs import verb

ORIGIN = Origin("enpt", licence="MPL-2.0")
OUTPUTS = {
    "mix": {"system": "mix"},
    "gad": {"system": "gad", "lenpen": 2, "max_len_b": 6, "max-len-a": 0},
    "gad-wide": {"system": "gad", "beam": 9},
    "ad": {"system": "ad"},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an experiment in which MIX and GAD are trained."""
    root = tmp_path_factory.mktemp("experiment")
    work = root / "work"
    data = toy.make_data(work)
    ORIGIN.write(data)
    for name in ("mix", "gad"):
        task, args, model = toy_systems.make_system(data, name)
        args.source_lang, args.target_lang = "en", "pl"
        toy.write_checkpoint(work / "systems" / name / "checkpoint_best.pt", args, model)
    write_classifier(work / "teacher/model")
    write_teacher_record(work / "teacher", toy.DOMAINS, "tfidf", {})
    architectures = {name: {"arch": toy_systems.ARCHITECTURES[name][0]} for name in ("mix", "ad", "gad")}
    return write_config(
        root / "toy.yaml",
        Path("corpora"),
        target_lang="pl",
        clean={"normalise": {"punctuation": None}},
        train={"systems": {**architectures, "two": {**architectures["gad"], "seeds": [1, 2]}}},
        translate={"common": {"beam": 3}, "outputs": OUTPUTS},
    )


def test_an_export_is_what_the_file_says(trained: Path, tmp_path: Path) -> None:
    scores = trained.parent / "work/scores/records.jsonl"
    scores.parent.mkdir()
    write_rows(scores, [Record(system=name, run="gad", domain="law", metric="chrF", value=40.0) for name in OUTPUTS])
    verb("export")([str(trained), "gad", str(tmp_path / "gad")])
    shutil.rmtree(scores.parent)
    manifest = verify(tmp_path / "gad")
    assert (manifest.name, manifest.languages, list(manifest.domains)) == ("gad", ("en", "pl"), toy.DOMAINS)
    assert (manifest.architecture, manifest.classifier) == ("transformer_gated_adapter_tiny", "tfidf")
    assert manifest.text == Normalise(punctuation=None)
    assert manifest.base == ORIGIN
    assert SystemTranslator.load(tmp_path / "gad").base == ORIGIN.text
    assert manifest.generation == {"beam": 3, "lenpen": 2.0, "max_len_a": 0.0, "max_len_b": 6}
    assert manifest.scores == {"gad": {"chrF": {"law": 40.0}}, "gad-wide": {"chrF": {"law": 40.0}}}
    verb("export")([str(trained), "mix", str(tmp_path / "mix")])
    assert verify(tmp_path / "mix").classifier is None


def test_untrained_systems_are_named_with_their_command(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(trained)
    for name, message in (
        ("ad", "ad is not trained yet; run fairseq-ext train .*toy.yaml ad"),
        ("two", "two has several runs; choose one of two@1, two@2"),
        ("tag", "'tag' is unknown; choose one of mix, ad, gad, two"),
    ):
        with pytest.raises(InputError, match=message):
            trained_run(config, name)
    assert trained_run(config, None).name == "gad"
    found = trained_outputs(config, config.all_output_runs())
    assert [run.name for run in found] == ["mix", "gad", "gad-wide"]
    assert capsys.readouterr().err.endswith(f"; run fairseq-ext train {trained} ad\n")
    with pytest.raises(InputError, match="toy.yaml: no system is trained yet"):
        verb("decode")([str(trained), "ad"])


def test_text_is_translated_by_the_last_trained_system(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.en").write_text("w4 w5\n\nw6\n")
    files = ["--input", str(tmp_path / "in.en"), "--output"]
    verb("translate")([str(trained), *files, str(tmp_path / "out.pl"), "--processes", "1"])
    exported = trained.parent / "work/exported"
    assert [path.name for path in exported.iterdir() if not path.name.startswith(".")] == ["gad"]
    verb("translate")([str(exported / "gad"), *files, str(tmp_path / "again.pl"), "--processes", "1"])
    assert (tmp_path / "out.pl").read_text() == (tmp_path / "again.pl").read_text()
    capsys.readouterr()
    verb("translate")([str(trained), *files, str(tmp_path / "out.pl"), "--system", "gad"])
    assert "gad: up to date" in capsys.readouterr().err.splitlines()
