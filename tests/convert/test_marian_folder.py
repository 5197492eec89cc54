"""Folders of Marian models: which files belong together, and what is wrong with others."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.marian_folder import find_files
from tests.convert.tiny_marian import make_marian_folder
from tests.fork_server import PYTHON
from tests.text.tiny_pieces import write_pieces
from tests.verbs import verb

MODEL, VOCABULARY = "model.ende.npz", "vocab.ende.spm"


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_marian_folder(tmp_path_factory.mktemp("firefox"))


def names(folder: Path, *files: str, **texts: Any) -> list[str]:
    """The model and the vocabularies that are found in a folder of empty files and of YAML."""
    for name in files:
        (folder / name).touch()
    for name, content in texts.items():
        (folder / f"{name.replace('_', '.')}.yml").write_text(yaml.safe_dump(content))
    found = find_files(folder)
    return [path.name for path in (found.model, *found.vocabularies(("en", "de")))]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["model.bin", "lex.s2t.bin", "vocab.spm"], ["model.bin", "vocab.spm", "vocab.spm"]),
        (["m.npz", "m.npz.optimizer.npz", "b.src.spm", "a.trg.spm"], ["m.npz", "b.src.spm", "a.trg.spm"]),
        (["m.bin.gz", "vocab.spm.gz", "srcvocab.spm.gz"], ["m.bin.gz", "srcvocab.spm.gz", "vocab.spm.gz"]),
        (["m.npz", "vocab.de.spm", "vocab.en.spm"], ["m.npz", "vocab.en.spm", "vocab.de.spm"]),
        (["m.npz", "x.vocab.yml", "source.spm", "target.spm"], ["m.npz", "x.vocab.yml", "x.vocab.yml"]),
    ],
)
def test_files_are_found_by_their_names(files: list[str], expected: list[str], tmp_path: Path) -> None:
    assert names(tmp_path, *files) == expected


def test_options_of_decoding_name_the_files(tmp_path: Path) -> None:
    files = ("a.npz", "b.npz", "one.spm", "two.spm", "three.spm")
    decoder = {"models": ["/training/b.npz"], "vocabs": ["/training/two.spm", "one.spm"]}
    assert names(tmp_path, *files, decoder=decoder) == ["b.npz", "two.spm", "one.spm"]
    assert find_files(tmp_path / "a.npz").decoding == {}  # those of the other model


def test_languages_are_those_of_the_metadata_or_else_of_the_name(tmp_path: Path) -> None:
    (tmp_path / MODEL).touch()
    for content, expected in (({}, ["en", "de"]), ({"targetLanguage": "nl"}, ["en", "nl"])):
        (tmp_path / "metadata.json").write_text(json.dumps(content))
        assert find_files(tmp_path).languages == expected
    (tmp_path / "metadata.json").write_text('{"sourceLanguage": 5}')
    with pytest.raises(InputError, match=r"metadata\.json: its languages are \[5, None\]"):
        _ = find_files(tmp_path).languages


@pytest.mark.parametrize(
    ("files", "texts", "match"),
    [
        (["vocab.spm"], {}, "has no model of Marian"),
        (["a.npz", "b.bin", "vocab.spm"], {}, r"has 2 models \(a.npz, b.bin\); give the file of one"),
        (["a.npz", "b.npz"], {"decoder": {"models": ["a.npz", "b.npz"]}}, r"decoder.yml: names 2 models"),
        (["a.npz"], {}, "has no vocabulary"),
        (["a.npz", "vocab.fsv"], {}, r"factored vocabularies \(vocab.fsv\) are not supported"),
        (["a.npz", "x.spm", "y.spm"], {}, r"has 2 files \*.spm \(x.spm, y.spm\), and it is not clear"),
        (["a.npz", "x.spm"], {"decoder": {"models": ["a.npz"], "vocabs": ["x.spm"] * 3}}, "has 3 vocabularies"),
    ],
)
def test_unclear_folders_are_refused(files: list[str], texts: dict[str, Any], match: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=match) as caught:
        names(tmp_path, *files, **texts)
    assert str(tmp_path) in str(caught.value)


def test_first_releases_of_opus_mt_are_refused_by_name(tmp_path: Path) -> None:
    for name in ("a.npz", "a.vocab.yml", "source.bpe", "target.bpe"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"merges of .* OPUS-MT, \(source.bpe\) are not supported"):
        find_files(tmp_path).read_vocabulary([None, None])


Spoil = Callable[[Path], Any]


def cut(name: str) -> Spoil:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-20])


def change_options(**changes: Any) -> Spoil:
    """Change the options in the model."""

    def spoil(folder: Path) -> None:
        with np.load(folder / MODEL) as file:
            arrays = dict(file)
        options = yaml.safe_load(arrays["special:model.yml"].tobytes().rstrip(b"\0"))
        text = yaml.safe_dump({**options, **{name.replace("_", "-"): value for name, value in changes.items()}})
        arrays["special:model.yml"] = np.frombuffer(text.encode(), np.int8)
        np.savez(folder / MODEL, **arrays)

    return spoil


def decode_with(folder: Path, beam: str) -> None:
    (folder / "decoder.yml").write_text(f"models: [{MODEL}]\nbeam-size: {beam}\n")


def add_array(array: np.ndarray) -> Spoil:
    def spoil(folder: Path) -> None:
        with np.load(folder / MODEL) as file:
            np.savez(folder / MODEL, x=array, **file)

    return spoil


def write_other_pieces(size: int, **options: Any) -> Spoil:
    return lambda folder: write_pieces(folder / VOCABULARY, size, **options)


MARIANS = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (cut(MODEL), f"{MODEL}: cannot be read as arrays"),
        (cut(VOCABULARY), f"{VOCABULARY}: cannot be loaded as a SentencePiece model"),
        (write_other_pieces(61), f"{VOCABULARY}: its first symbols are .* but Marian's are </s> and <unk>"),
        (write_other_pieces(60, **MARIANS), f"{MODEL}: an embedding table has 61 rows, but the vocabulary has 60"),
        (change_options(transformer_dim_ffn=32), f"{MODEL}: .* of another shape: .*fc1"),
        (change_options(enc_depth=3), f"{MODEL}: has no encoder_l3_self_Wq, which its options require"),
        (change_options(enc_depth=1), f"{MODEL}: has the unknown entry encoder_l2"),
        (lambda folder: decode_with(folder, "0"), f"{MODEL}: .* beam-size 0; expected 1 or more"),
        (lambda folder: decode_with(folder, "2.5"), f"{MODEL}: .* beam-size 2.5; expected 1 or more"),
        (add_array(np.array(["text"])), f"{MODEL}: x has numbers of type"),
        (add_array(np.array([{}], object)), f"{MODEL}: cannot be read as arrays"),
    ],
)
def test_what_is_damaged_ends_in_one_line_and_nothing_is_written(
    firefox: Path, change: Spoil, match: str, tmp_path: Path
) -> None:
    shutil.copytree(firefox, tmp_path / "theirs")
    change(tmp_path / "theirs")
    with pytest.raises(InputError, match=match) as caught:
        verb("import", "marian")([str(tmp_path / "theirs"), str(tmp_path / "ours")])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ours").exists()


@pytest.mark.slow
def test_packed_files_are_the_same(firefox: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.mkdir()
    for path in firefox.iterdir():
        (packed / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    (packed / "metadata.json").write_text(json.dumps({"sourceLanguage": "en", "targetLanguage": "de"}))
    for source, output in ((firefox / MODEL, "plain"), (packed, "other")):
        verb("import", "marian")([str(source), str(tmp_path / output)])
    for name in ("model.pt", "dict.en.txt", "dict.de.txt", "sentencepiece.model", "options.txt", "generation.txt"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    cut("model.ende.npz.gz")(packed)
    with pytest.raises(InputError, match=r"model\.ende\.npz\.gz: cannot be read"):
        verb("import", "marian")([str(packed), str(tmp_path / "cut")])


@pytest.mark.slow
def test_the_command_works_in_a_fresh_process(firefox: Path, tmp_path: Path) -> None:
    """In which nothing has been added to fairseq's options yet."""
    line = [PYTHON, "-m", "fairseq_ext.cli", "import", "marian", str(firefox), str(tmp_path / "ours")]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--source-lang en --target-lang de" in done.stdout
