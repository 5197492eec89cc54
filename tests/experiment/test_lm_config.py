"""The experiment file of language models: its sections are checked, and mistakes are named."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.lm_config import LanguageModelSplit, LanguageModelSubwords, load_lm_config


def write_config(path: Path, /, **changes: Any) -> Path:
    settings = {"work_dir": "work", "corpora": {"folder": "text"}}
    path.write_text(yaml.safe_dump({**settings, **changes}), encoding="utf-8")
    return path


def test_folder_and_work_dir_are_enough(tmp_path: Path) -> None:
    config = load_lm_config(write_config(tmp_path / "c.yaml"))
    assert config.path == tmp_path / "c.yaml"
    assert config.work_dir == Path("work")
    assert (config.corpora.unseen, config.corpora.on_bad_utf8) == (None, "fail")
    assert config.split == LanguageModelSplit()
    assert config.subwords == LanguageModelSubwords()


def test_sections_are_read(tmp_path: Path) -> None:
    subwords = {"vocab_size": 800, "character_coverage": 0.999, "gpt2": "models/gpt2"}
    config = load_lm_config(
        write_config(tmp_path / "c.yaml", split={"valid": 3, "test": 4, "stretch": 2}, subwords=subwords)
    )
    assert config.split == LanguageModelSplit(3, 4, 2)
    assert config.subwords == LanguageModelSubwords(vocab_size=800, character_coverage=0.999, gpt2="models/gpt2")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_lang": "en"}, r"c\.yaml: unknown key 'source_lang'; allowed are corpora,"),
        ({"path": "x"}, r"unknown key 'path'"),
        ({"corpora": {}}, r"corpora: the key 'folder' is missing"),
        ({"corpora": {"folder": "a", "unseen": "a"}}, r"corpora: unseen: is also the folder of the training domains"),
        ({"corpora": {"folder": "a", "on_bad_utf8": "pray"}}, r"on_bad_utf8: 'pray' is unknown; choose one of fail"),
        ({"split": {"stretch": 0}}, r"split: stretch: 0 is too small; give more than 0"),
        ({"split": {"max_words": 3}}, r"split: unknown key 'max_words'; allowed are stretch, test, valid"),
        ({"subwords": {"reuse": "a"}}, r"subwords: unknown key 'reuse'; allowed are character_coverage, gpt2,"),
        ({"subwords": {"character_coverage": 2}}, r"character_coverage: SentencePiece takes 0\.98 to 1\.0"),
        ({"seed": -1}, r"seed: -1 is out of range"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_lm_config(write_config(tmp_path / "c.yaml", **changes))
