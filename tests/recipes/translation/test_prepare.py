"""The whole preparation through its command line: complete, repeatable, safe to kill."""

import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from tests.small_corpus import read_tree, write_config, write_corpora
from tests.verbs import verb

STEPS = ("corpora", "clean", "splits", "subwords", "encoded", "data-bin")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The work directory of an undisturbed run in this process."""
    folder = tmp_path_factory.mktemp("prepared")
    verb("prepare")([str(write_config(folder / "c.yaml", write_corpora(folder / "corpora"))), "--workers", "1"])
    return folder / "work"


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
