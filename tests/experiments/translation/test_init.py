"""An experiment file for a folder of corpora: it can be run, fits their size, and refuses what is no corpus."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.translation import init
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.init import ChosenBase, plan_for
from fairseq_ext.text.entries import Corpora, find_corpora
from fairseq_ext.text.text_files import write_lines
from tests.text.test_entries import zipped
from tests.verbs import verb

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two domains of 400 and 600 pairs, in German and English, whose names need care in YAML."""
    monkeypatch.chdir(tmp_path)
    for name, count in {"law.de": 400, "law.en": 400, "no.de": 600, "no.en": 600}.items():
        write_lines(tmp_path / "my corpora: #1" / name, ["ein paar Wörter"] * count)
    return tmp_path / "my corpora: #1"


def sections_of(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def corpora(pairs: int, words: float = 15.0) -> Corpora:
    return Corpora(Path("x"), ("en", "de"), {"a": pairs // 2, "b": pairs // 2}, words, {})


def test_written_experiment_has_the_systems_of_a_shipped_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verb("init")([str(folder)])
    assert "mix: 60 passes over the text. About " in capsys.readouterr().out
    config = load_config(Path("my.yaml"))
    assert (config.langs, config.corpora.folder, config.work_dir) == (("en", "de"), str(folder), Path("runs/my"))
    assert config.split.valid == config.split.test == 20
    ours, shipped = map(sections_of, (Path("my.yaml"), ROOT / "configs/mdmt/products-small.yaml"))
    # It is of another size.
    sizes = ("max-update", "total-num-update", "max-tokens", "dropout", "lr", "lr-scheduler", "warmup-updates", "from")
    for name, system in shipped["train"]["systems"].items():
        theirs = {key: value for key, value in system.items() if key not in sizes}
        assert {key: value for key, value in ours["train"]["systems"][name].items() if key not in sizes} == theirs
    assert shipped["translate"]["outputs"].items() <= ours["translate"]["outputs"].items()


def test_paper_option_has_the_gates_of_the_paper(folder: Path) -> None:
    verb("init")([str(folder), "--paper"])
    ours, paper = (
        sections_of(path)["train"]["systems"] for path in (Path("my.yaml"), ROOT / "configs/mdmt/paper.yaml")
    )
    assert {item for item in paper["gad"].items() if item[0].startswith("gate-")} <= set(ours["gad"].items())
    assert not any("frozen-mode" in system for system in ours.values())
    with pytest.raises(InputError, match="my.yaml: already exists"):
        verb("init")([str(folder)])


def test_many_pairs_and_gpus_make_the_papers_model(folder: Path) -> None:
    plans = [plan_for(corpora(pairs, words=20.0), 2, gpus=4) for pairs in (30_000, 400_000, 33_000_000)]
    assert [plan.size.arch for plan in plans] == ["_small", "", ""]
    assert [plan.vocab_size for plan in plans] == [4000, 16_000, 32_000]
    assert plans[1].minutes < plans[2].minutes
    on_cores = [plan_for(corpora(pairs), 2) for pairs in (60_000, 33_000_000)]
    assert [plan.size.arch for plan in on_cores] == ["_small", "_small"]
    assert on_cores[1].gigabytes > on_cores[0].gigabytes + 1.5
    init.write_experiment(find_corpora(folder), plans[2], Path("large.yaml"), "runs/large")
    systems = load_config(Path("large.yaml")).systems
    assert systems["gad"].options["arch"] == "transformer_gated_adapter"
    assert systems["mix"].options.keys() & {"fp16", "cpu-processes"} == {"fp16"}


def test_swapped_or_unknown_languages_are_refused(folder: Path) -> None:
    write_lines(folder / "law.de", [f"the committee adopted report number {number}" for number in range(400)])
    write_lines(folder / "law.en", [f"der Ausschuss hat den Bericht {number} angenommen" for number in range(400)])
    with pytest.raises(InputError, match="law: the en side is in de"):
        verb("init")([str(folder)])
    assert not Path("my.yaml").exists()
    for path in folder.glob("*.de"):
        path.rename(path.with_suffix(".1de"))
    with pytest.raises(InputError, match="'1de' is not a language code"):
        verb("init")([str(folder)])


def test_minutes_shorten_the_training_of_the_base_or_on_it() -> None:
    text = corpora(20_000)
    good = plan_for(text, cores=2)
    short = plan_for(text, cores=2, minutes=30)
    assert 25 < short.minutes <= 30
    assert short.passes < good.passes == short.good_passes
    assert (short.good_minutes, short.size, short.is_good) == (good.minutes, good.size, False)
    assert plan_for(text, cores=2, minutes=10_000) == good
    base = ChosenBase({"import": "x"}, 17e6)
    free, short = (plan_for(text, 2, 0, minutes, base) for minutes in (None, 5))
    assert short.size.updates < free.size.updates
    assert 4 < short.minutes <= 5
    assert free.gigabytes == pytest.approx(2 * (1 + 16 * 0.017))
    for minutes, given in ((2, None), (1, base)):
        with pytest.raises(InputError, match=rf"--minutes: {minutes} .* at least \d+ "):
            plan_for(text, 2, 0, minutes, given)


def test_one_domain_has_neither_gates_nor_a_classifier(folder: Path) -> None:
    (folder / "no.de").unlink()
    (folder / "no.en").unlink()
    verb("init")([str(folder)])
    config = load_config(Path("my.yaml"))
    assert list(config.systems) == list(config.outputs) == ["mix", "mix-continued", "ad"]
    assert "teacher" not in sections_of(Path("my.yaml"))
    assert not config.outputs["ad"].uses_oracle  # nor needs text to say what it is


def test_on_a_base_from_a_folder(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "opus: one"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "pytorch_model.bin").write_bytes(b"0" * 4000)
    verb("init")([str(folder), "--base", str(model)])
    assert f"base: {model}, not trained. About " in (said := capsys.readouterr().out)
    assert "A base would help" not in said
    config = load_config(Path("my.yaml"))
    assert config.base is not None
    assert config.base.path == model
    assert list(config.systems) == ["base", "mix", "ft", "ad", "gad"]
    assert {system.start for system in config.systems.values()} == {None, "base"}
    assert config.evaluate.baseline == "base"
    assert not any({"dropout", "label-smoothing"} & system.options.keys() for system in config.systems.values())
    quickstart = load_config(ROOT / "configs/quickstart.yaml")
    for name, system in quickstart.systems.items():
        kept = {key: value for key, value in system.options.items() if key.startswith("gate-") or key == "arch"}
        assert kept.items() <= config.systems[name].options.items()
    assert quickstart.outputs.keys() <= config.outputs.keys()
    verb("init")([str(folder), "--output", "other.yaml"])
    assert "A base would help" in capsys.readouterr().out


def test_on_a_base_from_a_package(folder: Path) -> None:
    wheel = Path("runs/my/downloads/fast-1.0-py3-none-any.whl")
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(zipped({f"fast/{name}/model.intgemm.bin": b"0" * 1000 for name in ("enpt", "pten")}))
    for name, said in (
        ("nowhere", "--base nowhere: not found; give"),
        ("fast==1.0", r"--base fast==1\.0: add one of its folders .*: fast/enpt, fast/pten"),
    ):
        with pytest.raises(InputError, match=said):
            verb("init")([str(folder), "--base", name])
    assert not Path("my.yaml").exists()
    verb("init")([str(folder), "--base", "fast==1.0:fast/pten"])
    base = load_config(Path("my.yaml")).base
    assert base is not None
    found = base.recorded
    assert (found["package"], found["folder"]) == ("fast==1.0", "fast/pten")
    assert found["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
