"""The preparation of language models through its command line: complete, repeatable, safe to kill."""

import gzip
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils, encoders

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments import language_models
from fairseq_ext.text.encoders import fairseq_bpe_options
from fairseq_ext.text.text_files import read_lines
from tests.models.tiny_causal import make_causal
from tests.text.odd_texts import ODD_TEXTS
from tests.text.small_texts import SEEN, write_config, write_texts
from tests.verbs import verb


def decoded(data: Path, name: str, role: str) -> list[str]:
    """A binarised set as text again, by fairseq's own means and what lies in the data directory."""
    dictionary = Dictionary.load(str(data / "dict.txt"))
    options = {key.replace("-", "_"): value for key, value in fairseq_bpe_options(data).items()}
    bpe = encoders.build_bpe(Namespace(**options))
    rows = data_utils.load_indexed_dataset(str(data / name / role), dictionary)
    assert all(int(row[-1]) == dictionary.eos() for row in rows)
    return [bpe.decode(dictionary.string(row)) for row in rows]


def test_binarised_text_is_the_written_one(tmp_path: Path) -> None:
    verb("prepare")([str(write_config(tmp_path / "c.yaml", write_texts(tmp_path / "text"))), "--workers", "1"])
    work = tmp_path / "work"
    for role in ("train", "valid", "test"):
        for name in SEEN:
            assert decoded(work / "data-bin", name, role) == read_lines(work / "splits" / name / f"{role}.txt")
        # The subwords know no capital M.
        text = [line.replace("M", "<unk>") for line in read_lines(work / "splits" / "market" / f"{role}.txt")]
        assert decoded(work / "data-bin-unseen", "market", role) == text


@pytest.mark.slow
def test_a_base_brings_its_tokenizer(tmp_path: Path) -> None:
    make_causal(tmp_path / "hf", "gpt2")
    text = write_texts(tmp_path / "text")
    odd = [line for line in (" ".join(text.split()) for text in ODD_TEXTS) if line]
    (text / "train" / "odd.txt").write_text("\n".join(odd * 10) + "\n", encoding="utf-8")
    split = {"valid": 1, "test": 1, "stretch": 1}
    config = write_config(tmp_path / "c.yaml", text, base={"import": str(tmp_path / "hf")}, split=split, subwords=None)
    verb("prepare")([str(config), "--workers", "1"])
    data = tmp_path / "work" / "data-bin"
    for name in ("dict.txt", "tokenizer.json"):
        assert (data / name).read_bytes() == (tmp_path / "work" / "base" / name).read_bytes()
    for name in (*SEEN, "odd"):
        assert decoded(data, name, "train") == read_lines(tmp_path / "work" / "splits" / name / "train.txt")


def test_text_is_made_canonical(tmp_path: Path) -> None:
    text = "\ufeffone\r\n\r\n  two\twords \u2028 here\n".encode() + b"bad \xff\n"
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text))
    tally = language_models.import_text(language_models.text_files(tmp_path), "drop", 0, tmp_path)
    assert {"lines": 2, "blank": 1, "bad_utf8_dropped": 1}.items() <= tally.items()
    assert read_lines(tmp_path / "a.txt") == ["one", "two words here"]


def test_unusable_folders_are_named(tmp_path: Path) -> None:
    text = write_texts(tmp_path / "text")
    shutil.copytree(text / "train", text / "both")
    repeated = {"folder": str(text / "train"), "unseen": str(text / "both")}
    for corpora, place in (({"folder": str(text)}, "text: contains no files"), (repeated, r"both/\w+\.txt")):
        with pytest.raises(InputError, match=place):
            verb("prepare")([str(write_config(tmp_path / "c.yaml", text, corpora=corpora)), "--workers", "1"])
