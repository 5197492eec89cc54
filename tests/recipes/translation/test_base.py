"""An experiment on a model that was trained elsewhere: from a folder of Hugging Face's to the report and to export."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation.config import load_config
from fairseq_ext.recipes.translation.stages import base_step, stages_of
from fairseq_ext.runtime.requests import Request
from fairseq_ext.runtime.translator import SystemTranslator
from tests.convert import tiny_translation as tiny
from tests.small_corpus import NOUNS, write_config, write_corpora
from tests.verbs import verb

PLAIN = {"criterion": "label_smoothed_cross_entropy"}
SYSTEMS: dict[str, Any] = {
    "mix-continued": {**PLAIN, "from": "mix", "arch": "transformer"},
    "ft": {**PLAIN, "from": "mix", "per_domain": True, "arch": "transformer"},
    "ad": {**PLAIN, "from": "mix", "arch": "transformer_domain_adapter"},
    "gad": {
        "from": "ad", "uses_teacher": True, "arch": "transformer_gated_adapter",
        "criterion": "label_smoothed_cross_entropy_with_kd_gate",
    },
}  # fmt: skip
OUTPUTS = {
    "mix": {"system": "mix"},
    "mix-continued": {"system": "mix-continued"},
    "ft": {"system": "ft"},
    "ad": {"system": "ad"},
    "gad": {"system": "gad", "domain-source": "none", "gates": True},
}
COMMON = {"optimizer": "adam", "lr": 0.005, "max-tokens": 400, "cpu": True, "num-workers": 0, "max-epoch": 2}
SEARCH = {"beam": 2, "max-tokens": 400, "cpu": True, "max-len-b": tiny.LENGTH, "min-len": 0}


def write_experiment(root: Path, base: dict[str, str], systems: dict[str, Any] = SYSTEMS, **changes: Any) -> Path:
    outputs = {name: entry for name, entry in OUTPUTS.items() if entry["system"] in {"mix", *systems}}
    sections: dict[str, Any] = {
        "base": base,
        "train": {"common": COMMON, "systems": systems},
        "translate": {"common": SEARCH, "outputs": outputs},
        "evaluate": {"resamples": 100},
    }
    path = write_config(root / "base.yaml", root / "corpora", **{**sections, **changes})
    text = path.read_text().replace("subwords:\n  vocab_size: 70\n", "") if "subwords" not in changes else None
    path.write_text(text or path.read_text())
    return path


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The file of a finished experiment, and Hugging Face's model."""
    root = tmp_path_factory.mktemp("opus")
    corpora = write_corpora(root / "corpora")
    sides = [[line for name in NOUNS for line in (corpora / f"{name}.{lang}").open()] for lang in ("en", "de")]
    pairs = [(source.strip(), target.strip()) for source, target in zip(*sides, strict=True)]
    theirs = tiny.make_knowing_marian(root / "opus-mt", pairs, languages=("en", "de"))
    path = write_experiment(root, {"import": str(root / "opus-mt")})
    verb("run")([str(path)])
    return path, theirs


@pytest.mark.slow
def test_a_recipe_on_an_opus_mt_model(experiment: tuple[Path, Any], tmp_path: Path) -> None:
    path, theirs = experiment
    work = path.parent / "work"
    report = (work / "report/report.md").read_text()
    assert f"mix is the model in {path.parent / 'opus-mt'}" in report
    for name in OUTPUTS:
        assert f"\n| {name}" in report
    assert not list((work / "systems/mix").glob("*.log"))
    # The base translates as Hugging Face's search does; all that was trained translates otherwise.
    tokenizer = tiny.load_tokenizer(path.parent / "opus-mt", "marian")
    for domain in NOUNS:
        lines = (work / f"splits/{domain}/test.en").read_text().splitlines()
        search = {"num_beams": 2, "early_stopping": True, "max_length": tiny.LENGTH + 2}
        found = theirs.generate(**tokenizer(lines, return_tensors="pt", padding=True), **search)
        expected = tokenizer.batch_decode(found, skip_special_tokens=True, use_source_tokenizer=False)
        assert (work / f"translations/mix/{domain}.de").read_text().splitlines() == expected
    base = torch.load(work / "systems/mix/checkpoint_best.pt", weights_only=True)["model"]
    for name in ("mix-continued", "ft@bank", "ad", "gad"):
        model = torch.load(work / f"systems/{name}/checkpoint_best.pt", weights_only=False)["model"]
        moved = {key for key in base if not torch.equal(model[key].float(), base[key])}
        assert bool(moved) == (name in ("mix-continued", "ft@bank"))


@pytest.mark.slow
def test_its_systems_are_exported_and_their_adapters_are_files(experiment: tuple[Path, Any], tmp_path: Path) -> None:
    path, _ = experiment
    work = path.parent / "work"
    for name in ("mix", "ad", "gad"):
        verb("export")([str(path), name, str(tmp_path / name)])
    lines = (work / "splits/garden/test.en").read_text().splitlines()

    def translated(system: str, route: str | None) -> list[str]:
        translator = SystemTranslator.load(tmp_path / system)
        answers = translator.translate([Request(line, route) for line in lines])
        return [answer.candidates[0].text for answer in answers]

    for name, route in (("mix", None), ("ad", "garden"), ("gad", "gates")):
        assert translated(name, route) == (work / f"translations/{name}/garden.de").read_text().splitlines()
    verb("adapters", "export")([str(tmp_path / "ad"), str(tmp_path / "files")])
    files = sorted(map(str, (tmp_path / "files").iterdir()))
    verb("adapters", "attach")([str(tmp_path / "mix"), *files, str(tmp_path / "again")])
    assert translated("again", "garden") == translated("ad", "garden")
    with pytest.raises(InputError, match="post-norm"):
        verb("export-domain")([str(work / "systems/ad/checkpoint_best.pt"), "garden", str(tmp_path / "plain")])
    assert not (tmp_path / "plain").exists()


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no folder": ({"base": {"import": "nowhere"}}, "nowhere: no base model"),
    "a base and mix": ({"train": {"systems": {"mix": {"arch": "transformer"}}}}, "systems: mix: is the base"),
    "a base and subwords": ({"subwords": {"vocab_size": 70}}, "subwords: the base has its own"),
    "no key": ({"base": {"folder": "x"}}, "import"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_the_file_are_named_before_anything_runs(mistake: str, tmp_path: Path) -> None:
    write_corpora(tmp_path / "corpora")
    changes, match = MISTAKES[mistake]
    path = write_experiment(tmp_path, **{"base": {"import": str(tmp_path)}, **changes})
    with pytest.raises(InputError, match=match):
        verb("run")([str(path)])
    assert not (tmp_path / "work").exists()


def test_the_base_is_no_training(tmp_path: Path) -> None:
    write_corpora(tmp_path / "corpora")
    (tmp_path / "opus-mt").mkdir()
    (tmp_path / "opus-mt/config.json").write_text("{}")
    common = {**COMMON, "seeds": [1, 2], "tune": {"lr": [0.1, 0.2]}}
    systems = {"ad": SYSTEMS["ad"]}
    base, train = {"import": str(tmp_path / "opus-mt")}, {"common": common, "systems": systems}
    outputs = {"outputs": {"mix": {"system": "mix"}}}
    config = load_config(write_experiment(tmp_path, base, train=train, translate=outputs))
    stages = stages_of(config)
    assert [stage.name for stage in stages[:3]] == ["prepare", "teacher", "ad"]
    assert [step.output.name for step in stages[0].steps()][:2] == ["mix", "corpora"]
    assert config.systems["mix"].options == {"arch": "transformer"}
    assert [run.name for run in config.runs_of("mix")] == ["mix"]
    assert (config.base_systems, config.plain_outputs) == (["mix"], ["mix"])


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``hf`` and ``ours``: an OPUS-MT for two languages, and what ``import hf`` makes of it."""
    root = tmp_path_factory.mktemp("imported")
    tiny.make_marian(root / "hf", steps=0, targets=("deu", "fra"))
    verb("import", "hf")([str(root / "hf"), str(root / "ours"), "--target-lang", "deu"])
    return root


def take(root: Path, folder: Path, systems: dict[str, Any] = SYSTEMS, **told: str) -> Path:
    """Run the step of the base, and return its directory."""
    write_corpora(root / "corpora")
    step = base_step(load_config(write_experiment(root, {"import": str(folder), **told}, systems)))
    run_steps([step])
    return step.output


def test_a_folder_of_hugging_faces_and_an_imported_one_are_one_base(imported: Path, tmp_path: Path) -> None:
    one = take(tmp_path / "one", imported / "hf", target_lang="deu")
    other = take(tmp_path / "other", imported / "ours")
    vocabularies = [
        {path.name: path.read_bytes() for path in (folder / "vocabulary").iterdir()} for folder in (one, other)
    ]
    assert vocabularies[0].keys() == {
        "dict.en.txt", "dict.de.txt", "sentencepiece.model", "sentencepiece.de.model", "language-tokens.txt",
    }  # fmt: skip
    tokens = [files.pop("language-tokens.txt") for files in vocabularies]
    assert tokens == [b"marian en deu\n", b"marian eng deu\n"]
    assert vocabularies[0] == vocabularies[1]
    weights = [torch.load(folder / "checkpoint_best.pt", weights_only=True)["model"] for folder in (one, other)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def edit(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def with_adapters(folder: Path) -> None:
    state = torch.load(folder / "model.pt", weights_only=True)
    state["model"]["encoder.layers.0.adapter.bank.down_weight"] = torch.zeros(2, 8, 16)
    torch.save(state, folder / "model.pt")


DAMAGES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "a language of none": (
        "hf",
        lambda f: edit(f / "vocab.json", lambda text: text.replace("deu", "pol")),
        "--target-lang deu: .*pol, fra",
    ),
    "half a folder": ("hf", lambda f: (f / "source.spm").unlink(), "source.spm"),
    "weights that lie": ("hf", lambda f: os.truncate(f / "model.safetensors", 5000), "model.safetensors"),
    "the other way": (
        "hf",
        lambda f: (f / "tokenizer_config.json").write_text(json.dumps({"source_lang": "deu", "target_lang": "eng"})),
        "from deu to eng",
    ),
    "no dictionary": ("ours", lambda f: (f / "dict.deu.txt").unlink(), "dict.deu.txt: not found"),
    "no dictionary at all": ("ours", lambda f: (f / "dict.deu.txt").write_bytes(b"\xff\x00"), "dict.deu.txt"),
    "another dictionary": ("ours", lambda f: edit(f / "dict.eng.txt", lambda text: text + "more 1\n"), "symbols"),
    "pieces of another": (
        "ours",
        lambda f: tiny.write_pieces(f / "sentencepiece.model", 24, "char", ["0123456789 +-*/=()[]{}"]),
        "another model's",
    ),
    "no pieces": ("ours", lambda f: (f / "sentencepiece.model").unlink(), "sentencepiece.model"),
    "other options": ("ours", lambda f: (f / "options.txt").write_text("--user-dir x"), "options.txt"),
    "other tokens": ("ours", lambda f: edit(f / "options.txt", lambda text: text.replace("marian", "m2m")), "lacks"),
    "adapters": ("ours", with_adapters, "model.pt"),
    "no checkpoint": ("ours", lambda f: (f / "model.pt").write_bytes(b"no"), "model.pt"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_base_that_is_damaged_ends_in_one_line(imported: Path, damage: str, tmp_path: Path) -> None:
    kind, change, match = DAMAGES[damage]
    shutil.copytree(imported / kind, tmp_path / "theirs", ignore=lambda *_: ["step.json"])
    change(tmp_path / "theirs")
    with pytest.raises(InputError, match=match) as caught:
        take(tmp_path, tmp_path / "theirs", target_lang="deu")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "work/systems/mix").exists()


def test_tags_are_refused_where_the_base_has_no_symbols_for_them(imported: Path, tmp_path: Path) -> None:
    tag = {**PLAIN, "from": "mix", "arch": "transformer", "domain-tags": True}
    with pytest.raises(InputError, match="tag: domain-tags: the base has no symbol <domain:bank>"):
        take(tmp_path, imported / "ours", {"tag": tag})
