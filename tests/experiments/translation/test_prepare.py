"""Preparation with the subwords of others."""

from pathlib import Path
from typing import Any

from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb


def prepare(folder: Path, corpora: Path, **sections: Any) -> Path:
    """The work directory of an undisturbed run in this process."""
    folder.mkdir()
    verb("prepare")([str(write_config(folder / "c.yaml", corpora, **sections)), "--workers", "1"])
    return folder / "work"


def test_subwords_of_others_are_taken_as_they_are(tmp_path: Path) -> None:
    original = prepare(tmp_path / "original", write_corpora(tmp_path / "corpora"))
    general = tmp_path / "general"
    general.mkdir()
    for lang in ("en", "de"):
        (general / f"general.{lang}").write_bytes((original / f"splits/bank/train.{lang}").read_bytes())
    for key, taken in (("reuse", original / "subwords"), ("from", original / "subwords/sentencepiece.model")):
        work = prepare(tmp_path / key, general, subwords={key: str(taken)})
        assert (work / "subwords").exists() == (key == "from")
        for name in ("dict.en.txt", "dict.de.txt", "sentencepiece.model"):
            assert (work / "data-bin" / name).read_bytes() == (original / "data-bin" / name).read_bytes()
        assert (work / "data-bin/domains.txt").read_text() == "general\n"
