"""An experiment file for a folder of corpora: it can be run, fits their size, and refuses what is no corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.corpora.entries import Corpora, find_corpora
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation import init
from fairseq_ext.recipes.translation.config import load_config
from fairseq_ext.recipes.translation.init import plan_for
from tests.verbs import verb

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two domains of 400 and 600 pairs, in German and English, whose names need care in YAML."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my corpora: #1"
    folder.mkdir()
    for domain, count in (("law", 400), ("no", 600)):
        for lang in ("de", "en"):
            (folder / f"{domain}.{lang}").write_text("ein paar Wörter\n" * (count - 1) + "ohne Ende", encoding="utf-8")
    return folder


def sections_of(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def corpora(pairs: int, words: float = 15.0) -> Corpora:
    return Corpora(Path("x"), ("en", "de"), {"a": pairs // 2, "b": pairs // 2}, words, {})


def test_what_is_written_is_an_experiment_with_the_systems_of_the_quickstart(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb("init")([str(folder)])
    assert "mix: 60 passes over the text. About " in capsys.readouterr().out
    config = load_config(Path("my.yaml"))
    assert (config.langs, config.corpora.folder, config.work_dir) == (("en", "de"), str(folder), Path("runs/my"))
    assert config.split.valid == config.split.test == 20
    ours, quickstart = map(sections_of, (Path("my.yaml"), ROOT / "configs/quickstart.yaml"))
    # It is of another size.
    sizes = ("max-update", "total-num-update", "max-tokens", "dropout", "lr", "lr-scheduler", "warmup-updates", "from")
    for name, system in quickstart["train"]["systems"].items():
        theirs = {key: value for key, value in system.items() if key not in sizes}
        assert {key: value for key, value in ours["train"]["systems"][name].items() if key not in sizes} == theirs
    assert quickstart["translate"]["outputs"].items() <= ours["translate"]["outputs"].items()


def test_gates_of_the_paper(folder: Path) -> None:
    verb("init")([str(folder), "--paper"])
    ours, paper = (
        sections_of(path)["train"]["systems"] for path in (Path("my.yaml"), ROOT / "configs/mdmt/paper.yaml")
    )
    gates = {key: value for key, value in paper["gad"].items() if key.startswith("gate-")}
    assert gates.items() <= ours["gad"].items()
    assert not any("frozen-mode" in system for system in ours.values())
    assert set(load_config(Path("my.yaml")).systems) == set(ours)


def test_many_pairs_and_gpus_make_the_papers_model(folder: Path) -> None:
    plans = [plan_for(corpora(pairs, words=20.0), 2, gpus=4) for pairs in (30_000, 400_000, 33_000_000)]
    assert [plan.size.arch for plan in plans] == ["_small", "", ""]
    assert [plan.vocab_size for plan in plans] == [4000, 16_000, 32_000]
    assert plans[1].minutes < plans[2].minutes
    assert plan_for(corpora(33_000_000), 2).size.arch == "_small"
    assert plan_for(corpora(33_000_000), 2).gigabytes > plan_for(corpora(60_000), 2).gigabytes + 1.5
    init.write_experiment(find_corpora(folder), plans[2], Path("large.yaml"), "runs/large")
    systems = load_config(Path("large.yaml")).systems
    assert systems["gad"].options["arch"] == "transformer_gated_adapter"
    assert systems["mix"].options["fp16"] is True
    assert "cpu-processes" not in systems["mix"].options


def test_minutes_shorten_the_base_alone() -> None:
    text = corpora(20_000)
    good = plan_for(text, cores=2)
    short = plan_for(text, cores=2, minutes=30)
    assert 25 < short.minutes <= 30
    assert short.passes < good.passes == short.good_passes
    assert (short.good_minutes, short.size, short.is_good) == (good.minutes, good.size, False)
    assert plan_for(text, cores=2, minutes=10_000) == good
    with pytest.raises(InputError, match=r"--minutes: 2 .* at least \d+ "):
        plan_for(text, cores=2, minutes=2)


def test_one_domain_has_neither_gates_nor_a_classifier(folder: Path) -> None:
    for lang in ("de", "en"):
        (folder / f"no.{lang}").unlink()
    verb("init")([str(folder)])
    config = load_config(Path("my.yaml"))
    assert list(config.systems) == list(config.outputs) == ["mix", "mix-continued", "ad"]
    assert "teacher" not in sections_of(Path("my.yaml"))
    assert not config.outputs["ad"].uses_oracle  # nor needs text to say what it is


def test_nothing_is_overwritten(folder: Path) -> None:
    Path("my.yaml").write_text("mine")
    with pytest.raises(InputError, match="my.yaml: already exists"):
        verb("init")([str(folder)])
    assert Path("my.yaml").read_text() == "mine"
