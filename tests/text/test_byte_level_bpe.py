"""A byte-level BPE in Hugging Face's files: read in all their forms, and refused where it is none."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers.implementations import ByteLevelBPETokenizer

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.byte_level_bpe import read_bpe, read_imported_bpe, write_bpe
from fairseq_ext.text.text_files import write_lines
from tests.convert.tiny_roberta import make_bpe


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that an import writes."""
    folder = tmp_path_factory.mktemp("bpe")
    make_bpe(folder)
    vocabulary = read_bpe(folder)
    write_bpe(folder, vocabulary)
    write_lines(folder / "dict.txt", vocabulary.dictionary_lines())
    return folder


@pytest.mark.parametrize(
    "spoil",
    [
        lambda ids: ids.pop("ÿ"),
        lambda ids: ids.update({"a": ids["b"]}),
        lambda ids: ids.update({"mask": ids.pop("<mask>")}),
    ],
)
def test_other_vocabularies_are_refused(imported: Path, tmp_path: Path, spoil: Any) -> None:
    ids = json.loads((imported / "vocab.json").read_text())
    spoil(ids)
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    (tmp_path / "merges.txt").write_bytes((imported / "merges.txt").read_bytes())
    with pytest.raises(InputError, match=r"vocab\.json: "):
        read_bpe(tmp_path)
    (tmp_path / "vocab.json").write_bytes((imported / "vocab.json").read_bytes())
    (tmp_path / "dict.txt").write_text("".join(sorted((imported / "dict.txt").read_text().splitlines(keepends=True))))
    with pytest.raises(InputError, match=r"dict\.txt: "):
        read_imported_bpe(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}},
        {"pre_tokenizer": None},
        {"model": {"type": "WordLevel", "vocab": {}}},
    ],
)
def test_tokenizers_of_other_kinds_are_refused(imported: Path, tmp_path: Path, change: dict) -> None:
    theirs = ByteLevelBPETokenizer.from_file(str(imported / "vocab.json"), str(imported / "merges.txt"))
    (tmp_path / "tokenizer.json").write_text(json.dumps(json.loads(theirs.to_str()) | change))
    with pytest.raises(InputError, match=r"tokenizer\.json: "):
        read_bpe(tmp_path)
