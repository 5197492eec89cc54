"""Data for a base model say how it is told the languages, and how its target is cut."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from fairseq.data import Dictionary

from fairseq_ext.base.errors import InputError
from tests import toy
from tests.text.tiny_pieces import TEXT, write_pieces

PAIR = ("--source-lang", "en", "--target-lang", "pl")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dictionaries and models of a base that reads ``>>pol<<``; the target has its own model."""
    folder = tmp_path_factory.mktemp("base") / "data-bin"
    for lang, name, size in (("en", "sentencepiece.model", 61), ("pl", "sentencepiece.pl.model", 58)):
        dictionary = Dictionary()
        for symbol in [*write_pieces(folder / name, size), ">>pol<<"]:
            dictionary.add_symbol(symbol)
        dictionary.save(str(folder / f"dict.{lang}.txt"))
    (folder / "domains.txt").write_text("".join(f"{name}\n" for name in toy.DOMAINS))
    (folder / "language-tokens.txt").write_text("marian eng pol\n")
    return folder


def cut(task: Any, data: Path, lang: str) -> Any:
    """What cuts a language, by hand."""
    own = data / f"sentencepiece.{lang}.model"
    model = sentencepiece.SentencePieceProcessor(model_file=str(own if own.is_file() else data / "sentencepiece.model"))
    dictionary = task.src_dict if lang == "en" else task.tgt_dict
    return lambda line: [dictionary.index(piece) for piece in model.encode(line, out_type=str)]


def test_the_source_is_told_the_language_and_the_target_is_cut_by_its_own_model(data: Path) -> None:
    options = ["--bpe", "sentencepiece", "--sentencepiece-model", str(data / "sentencepiece.model")]
    task, args = toy.make_task(data, *PAIR, *options)
    bpe = task.build_bpe(args)
    for line in TEXT[:3]:
        token = task.src_dict.index(">>pol<<")
        assert task.encode_line(line, bpe.encode).tolist() == [token, *cut(task, data, "en")(line), 2]
        constraint = task.target_dictionary.encode_line(bpe.encode(line), append_eos=False, add_if_not_exist=False)
        assert constraint.tolist() == cut(task, data, "pl")(line)
    assert cut(task, data, "en")(TEXT[0]) != cut(task, data, "pl")(TEXT[0])


@pytest.mark.parametrize("content", ["", "opus eng pol\n", "marian eng deu\n", "\xff"])
def test_language_tokens_that_are_none_end_in_one_line(data: Path, content: str, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data-bin")
    (tmp_path / "data-bin/language-tokens.txt").write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"language-tokens\.txt|lacks >>deu<<"):
        toy.make_task(tmp_path / "data-bin", *PAIR)
