"""The whole preparation through its command line: complete, repeatable, safe to kill."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils

from fairseq_ext.engine.staging import Staging
from fairseq_ext.inputs.errors import InputError
from tests.recipes.commands import kill_in_every_step
from tests.small_corpus import NOUNS, read_tree, write_config, write_corpora
from tests.verbs import verb

ROOT = Path(__file__).resolve().parents[3]
STEPS = ("corpora", "clean", "splits", "subwords", "encoded", "data-bin")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The work directory of an undisturbed run in this process."""
    folder = tmp_path_factory.mktemp("prepared")
    verb("prepare")([str(write_config(folder / "c.yaml", write_corpora(folder / "corpora"))), "--workers", "1"])
    return folder / "work"


def test_data_directory_is_complete(prepared: Path) -> None:
    files = set(read_tree(prepared / "data-bin"))
    expected = {"domains.txt", "dict.en.txt", "dict.de.txt", "sentencepiece.model", "step.json"}
    for domain in NOUNS:
        for split in ("train", "valid", "test"):
            expected |= {f"{domain}/{split}.en-de.{lang}.{kind}" for lang in ("en", "de") for kind in ("bin", "idx")}
    assert files == expected


def test_binarised_sentences_are_the_written_ones(prepared: Path) -> None:
    dictionary = Dictionary.load(str(prepared / "data-bin" / "dict.de.txt"))
    prefix = prepared / "data-bin" / "garden" / "train.en-de.de"
    rows = data_utils.load_indexed_dataset(str(prefix), dictionary)
    text = [dictionary.string(row, bpe_symbol="sentencepiece") for row in rows]
    assert text == (prepared / "splits" / "garden" / "train.de").read_text().splitlines()


def test_exchanged_languages_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    folder = tmp_path / "corpora"
    folder.mkdir()
    english = [f"the committee adopted its report number {number} this morning" for number in range(100)]
    german = [f"der Ausschuss hat heute Morgen den Bericht Nummer {number} angenommen" for number in range(100)]
    (folder / "law.en").write_text("\n".join(german), encoding="utf-8")
    (folder / "law.de").write_text("\n".join(english), encoding="utf-8")
    with pytest.raises(InputError, match="law: the en side is in de and the de side in en; exchange the files' names"):
        verb("prepare")([str(write_config(tmp_path / "c.yaml", folder)), "--workers", "1"])


@pytest.mark.slow
def test_command_line_gives_the_same_bytes(prepared: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path / "c.yaml", write_corpora(tmp_path / "corpora"))
    command = [sys.executable, "-m", "fairseq_ext.cli", "prepare", str(config)]
    plan = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert [line.split()[0] for line in plan.stdout.splitlines()] == ["build"] * len(STEPS)
    assert not (tmp_path / "work").exists()
    subprocess.run([*command, "--workers", "2"], check=True, capture_output=True, cwd=tmp_path)
    for step in STEPS:
        assert read_tree(tmp_path / "work" / step) == read_tree(prepared / step)
    again = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert again.stderr.splitlines() == [f"{name}: up to date" for name in STEPS]


@pytest.mark.slow
def test_a_run_killed_in_every_step_ends_with_the_same_bytes(prepared: Path, tmp_path: Path) -> None:
    """Each time it goes on from where it was killed, up to the next step."""
    config = write_config(tmp_path / "c.yaml", write_corpora(tmp_path / "corpora"))
    command = [sys.executable, "-m", "fairseq_ext.cli", "prepare", str(config), "--workers", "1"]
    kill_in_every_step(command, STEPS)
    verb("prepare")([str(config), "--workers", "1"])
    for name in STEPS:
        assert read_tree(tmp_path / "work" / name) == read_tree(prepared / name)
    assert not list((tmp_path / "work").glob(".*.step"))


def test_changed_option_rebuilds_what_depends_on_it(prepared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = prepared.parent
    config = write_config(folder / "c.yaml", folder / "corpora", subwords={"vocab_size": 71})
    verb("prepare")([str(config), "--dry-run"])
    plan = capsys.readouterr().out.splitlines()
    state = {Path(line[12:].split()[0]).name: line.split()[0] for line in plan}
    assert [name for name in STEPS if state[name] == "build"] == ["subwords", "encoded", "data-bin"]
    assert [line.partition(" (")[2] for line in plan if "(" in line] == ["vocab_size was 70, is 71)"]


@pytest.mark.parametrize("key", ["reuse", "from"])
def test_subwords_of_others_are_taken_as_they_are(prepared: Path, tmp_path: Path, key: str) -> None:
    general = tmp_path / "corpora"
    general.mkdir()
    for lang in ("en", "de"):
        (general / f"general.{lang}").write_bytes((prepared / "splits" / "bank" / f"train.{lang}").read_bytes())
    taken = prepared / "subwords" / ("sentencepiece.model" if key == "from" else "")
    config = write_config(tmp_path / "c.yaml", general, subwords={key: str(taken)})
    verb("prepare")([str(config), "--workers", "1"])
    made, original = tmp_path / "work" / "data-bin", prepared / "data-bin"
    assert (tmp_path / "work" / "subwords").exists() == (key == "from")
    for name in ("dict.en.txt", "dict.de.txt", "sentencepiece.model"):
        assert (made / name).read_bytes() == (original / name).read_bytes()
    assert (made / "domains.txt").read_text() == "general\n"


def test_domains_may_be_named_like_anything(tmp_path: Path) -> None:
    text = write_corpora(tmp_path / "text")
    for lang in ("en", "de"):
        (text / f"bank.{lang}").rename(text / f"files.{lang}")
        (text / f"garden.{lang}").rename(text / f"blocks.{lang}")
    verb("prepare")([str(write_config(tmp_path / "c.yaml", text)), "--workers", "1"])
    for name in ("blocks", "files"):
        assert (tmp_path / "work" / "data-bin" / name / "train.en-de.en.bin").stat().st_size > 100
    assert not list((tmp_path / "work").rglob(".tasks*"))


def test_an_import_killed_in_the_middle_goes_on(tmp_path: Path) -> None:
    config = write_config(tmp_path / "c.yaml", write_corpora(tmp_path / "text"))
    verb("prepare")([str(config), "--to", "corpora", "--workers", "1"])
    corpora = tmp_path / "work" / "corpora"
    unfinished = Staging(corpora).start("another fingerprint")
    (unfinished / ".tasks" / ".000000.host.1").mkdir(parents=True)
    shutil.rmtree(corpora)
    verb("prepare")([str(config), "--to", "corpora", "--workers", "1"])
    assert sorted(read_tree(corpora)) == sorted(
        [*(f"{name}.{kind}" for name in NOUNS for kind in ("de", "en", "index.json")), "step.json"]
    )
