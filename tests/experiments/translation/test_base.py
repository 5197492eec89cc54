"""An experiment on a model that was trained elsewhere: from a folder of Hugging Face's to the report and to export."""

import dataclasses
import hashlib
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.origin import Origin, read_origin
from fairseq_ext.convert.experiment_base import write_base
from fairseq_ext.convert.steps import base_files
from tests.convert import tiny_translation as tiny
from tests.convert.tiny_marian import make_marian_folder
from tests.small_corpus import NOUNS, write_config, write_corpora
from tests.text.test_entries import zipped
from tests.verbs import verb

PLAIN = {"criterion": "label_smoothed_cross_entropy"}
GATED = {"arch": "transformer_gated_adapter", "criterion": "label_smoothed_cross_entropy_with_kd_gate"}
SYSTEMS: dict[str, Any] = {
    "mix": {**PLAIN, "from": "base", "arch": "transformer"},
    "tag": {**PLAIN, "from": "base", "arch": "transformer", "domain-tags": True},
    "gad": {**GATED, "from": "base", "uses_teacher": True, "gate-base": True},
}
OUTPUTS = {
    "base": {"system": "base"},
    "mix": {"system": "mix"},
    "tag": {"system": "tag"},
    "gad": {"system": "gad", "domain-source": "none", "gates": True},
}
COMMON = {"optimizer": "adam", "lr": 0.005, "max-tokens": 400, "cpu": True, "num-workers": 0, "max-epoch": 1}
SEARCH = {"beam": 2, "max-tokens": 400, "cpu": True, "max-len-b": tiny.LENGTH, "min-len": 0}


def write_experiment(root: Path, base: dict[str, str], systems: dict[str, Any] = SYSTEMS) -> Path:
    outputs = {name: entry for name, entry in OUTPUTS.items() if entry["system"] in {"base", *systems}}
    return write_config(
        root / "base.yaml",
        root / "corpora",
        base=base,
        teacher={"folds": 2, "base_text": str(_general_text(root))},
        train={"common": COMMON, "systems": systems},
        translate={"common": SEARCH, "outputs": outputs},
        evaluate={"resamples": 100},
        subwords={},
    )


def _general_text(folder: Path) -> Path:
    path = folder / "general.en"
    places = ("hill", "road", "lake", "field", "house", "tower", "bridge", "market")
    path.write_text("".join(f"the sun shines on the {place}\n" for place in places))
    return path


def pack(model: Path, downloads: Path) -> dict[str, str]:
    """Write a model's files as a folder of a package that is downloaded already, and return the section ``base``."""
    files = {f"opus/models/de/{path.name}": path.read_bytes() for path in model.iterdir()}
    files["opus-1.0.dist-info/METADATA"] = b"License: MIT\n"
    downloads.mkdir(parents=True)
    wheel = downloads / "opus-1.0-py3-none-any.whl"
    wheel.write_bytes(zipped(files))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return {"package": "opus==1.0", "sha256": digest, "folder": "opus/models/de", "licence": "CC-BY-4.0"}


@pytest.mark.slow
def test_a_recipe_on_an_opus_mt_model(tmp_path: Path) -> None:
    corpora, opus, work = write_corpora(tmp_path / "corpora"), tmp_path / "opus-mt", tmp_path / "work"
    sides = [[line for name in NOUNS for line in (corpora / f"{name}.{lang}").open()] for lang in ("en", "de")]
    pairs = [(source.strip(), target.strip()) for source, target in zip(*sides, strict=True)]
    theirs = tiny.make_knowing_marian(opus, pairs, languages=("en", "de"))
    verb("run")([str(write_experiment(tmp_path, pack(opus, work / "downloads")))])
    report = (work / "report/report.md").read_text()
    assert "base is an unchanged model: de from opus==1.0; licence CC-BY-4.0 (the package: MIT)" in report
    assert all(f"\n| {name}" in report for name in OUTPUTS)
    assert not list((work / "systems/base").glob("*.log"))
    # The base translates as Hugging Face's search does; all that was trained translates otherwise.
    tokenizer = tiny.load_tokenizer(opus, "marian")
    for domain in NOUNS:
        lines = (work / f"splits/{domain}/test.en").read_text().splitlines()
        search = {"num_beams": 2, "early_stopping": True, "max_length": tiny.LENGTH + 2}
        found = theirs.generate(**tokenizer(lines, return_tensors="pt", padding=True), **search)
        expected = tokenizer.batch_decode(found, skip_special_tokens=True, use_source_tokenizer=False)
        assert (work / f"translations/base/{domain}.de").read_text().splitlines() == expected
    base = torch.load(work / "systems/base/checkpoint_best.pt", weights_only=True)
    found = read_origin(work / "data-bin")
    assert found is not None
    origin = dataclasses.asdict(found)
    assert base["task_state"]["base"] == origin
    assert (origin["licence"], origin["package_licence"]) == ("CC-BY-4.0", "MIT")
    for name in ("mix", "tag", "gad"):
        state = torch.load(work / f"systems/{name}/checkpoint_best.pt", weights_only=False)
        moved = {key for key in base["model"] if not torch.equal(state["model"][key].float(), base["model"][key])}
        assert bool(moved) == (name != "gad")
        assert state["task_state"]["base"] == origin
    assert not list((work / "downloads").glob(".base-*"))
    # The gates learnt from general text and its translations by the base.
    general = (work / "general/train.en").read_text().splitlines()
    found = theirs.generate(**tokenizer(general, return_tensors="pt", padding=True), max_length=tiny.LENGTH + 2)
    expected = tokenizer.batch_decode(found, skip_special_tokens=True, use_source_tokenizer=False)
    assert (work / "general/train.de").read_text().splitlines() == expected
    assert '"gate": "base"' in (work / "analysis/gates/records.jsonl").read_text()


def test_added_tags_leave_the_model_as_it_was(tmp_path: Path) -> None:
    """They are never produced, and tied tables stay tied."""
    folder = make_marian_folder(tmp_path / "enpt", "enpt")
    models = []
    for tags in ([], ["<domain:a>", "<domain:b>"]):
        place = tmp_path / str(len(tags))
        place.mkdir()
        write_base(folder, place / "model.pt", place / "words", ("en", "pt"), (None, None), Origin("enpt"), tags)
        models.append(torch.load(place / "model.pt", weights_only=True)["model"])
        assert (place / "words/dict.en.txt").read_text().split()[-2 * len(tags) :: 2][: len(tags)] == tags
    plain, tagged = models
    for name, value in plain.items():
        assert torch.equal(tagged[name][: len(value)], value)
        assert len(tagged[name]) - len(value) == 2 * (value.size(0) == len(plain["encoder.embed_tokens.weight"]))
    assert tagged["decoder.output_bias"][-2:].tolist() == [-100.0, -100.0]
    tables = [name for name in plain if name.endswith(("embed_tokens.weight", "projection.weight"))]
    pairs = list(combinations(tables, 2))
    ties = [[model[one].data_ptr() == model[other].data_ptr() for one, other in pairs] for model in models]
    assert ties[0] == ties[1]


def test_a_missing_base_is_named(tmp_path: Path) -> None:
    write_corpora(tmp_path / "corpora")
    with pytest.raises(InputError, match="nowhere: has no base model"):
        verb("run")([str(write_experiment(tmp_path, {"import": "nowhere"}))])
    assert not (tmp_path / "work").exists()


def test_a_marian_folder_or_file_is_a_base_for_its_languages(tmp_path: Path) -> None:
    folder = make_marian_folder(tmp_path / "enpt", "enpt")
    written = []
    for number, source in enumerate((folder, folder / "model.enpt.npz")):
        place = tmp_path / str(number)
        place.mkdir()
        write_base(source, place / "model.pt", place / "words", ("en", "pt_BR"), (None, None), Origin(source.name))
        written.append(torch.load(place / "model.pt", weights_only=True))
        assert (place / "words/dict.pt_BR.txt").is_file()
    assert all(torch.equal(value, written[1]["model"][name]) for name, value in written[0]["model"].items())
    assert [each["task_state"]["base"]["model"] for each in written] == ["enpt", "model.enpt.npz"]
    for languages, told in (
        (("pt_BR", "en"), (None, None)),
        (("en", "de"), (None, None)),
        (("en", "pt"), (None, "fr")),
    ):
        with pytest.raises(InputError, match=r"model\.enpt\.npz: translates from en to pt, not from \w+ to \w+; give"):
            write_base(folder, tmp_path / "model.pt", tmp_path / "words", languages, told, Origin("x"))
    write_base(folder, tmp_path / "model.pt", tmp_path / "words", ("uk", "xx"), ("en", "pt"), Origin("x"))


def test_a_base_is_one_model_and_the_files_that_are_read(tmp_path: Path) -> None:
    for names, said in (
        (["notes.txt"], "has no base model; give the folder"),
        (["one.npz", "two.npz"], r"has 2 models \(one.npz, two.npz\); give the file of one"),
    ):
        for name in names:
            (tmp_path / name).touch()
        with pytest.raises(InputError, match=said):
            base_files(tmp_path)
    folder = make_marian_folder(tmp_path / "enpt", "enpt")
    (folder / "lex.50.50.enpt.s2t.bin").touch()
    names = ["lex.50.50.enpt.s2t.bin", "model.enpt.npz", "vocab.enpt.spm"]
    assert [path.name for path in base_files(folder)] == names
    assert base_files(folder / "model.enpt.npz") == base_files(folder)
