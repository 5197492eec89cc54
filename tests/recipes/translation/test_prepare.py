"""Preparation with the subwords of others."""

from pathlib import Path

import pytest

from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The work directory of an undisturbed run in this process."""
    folder = tmp_path_factory.mktemp("prepared")
    verb("prepare")([str(write_config(folder / "c.yaml", write_corpora(folder / "corpora"))), "--workers", "1"])
    return folder / "work"


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
