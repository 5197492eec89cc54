"""Texts of words are cleaned, unknown words are counted, and the dictionary has the words and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.engine.steps import run_steps
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.recurrent.stages import preparation_steps, write_texts
from tests.recipes.recurrent.small_experiment import load, write_file

TEXTS = {"train": " the  cat \n\nthe <unk> sat\n", "valid": "the dog sat\n", "test": "a cat\na dog\n"}


def write_corpora(folder: Path, **texts: str) -> dict[str, Path]:
    paths = {split: folder / f"{split}.txt" for split in TEXTS}
    for split, path in paths.items():
        path.write_text({**TEXTS, **texts}[split], encoding="utf-8")
    (folder / "out").mkdir()
    return paths


@pytest.mark.parametrize("vocabulary", [0, 4])
def test_unknown_words_are_counted(tmp_path: Path, vocabulary: int, capsys: pytest.CaptureFixture[str]) -> None:
    write_texts(tmp_path / "out", write_corpora(tmp_path), vocabulary)
    assert read_lines(tmp_path / "out/train.txt") == ["the cat", "the <unk> sat"]
    assert read_lines(tmp_path / "out/test.txt") == ["<unk> cat", "<unk> <unk>"]
    assert json.loads((tmp_path / "out/counts.json").read_text()) == {
        "train": {"lines": 2, "tokens": 7, "unknown": 0, "words": 4},
        "valid": {"lines": 1, "tokens": 4, "unknown": 1},
        "test": {"lines": 2, "tokens": 6, "unknown": 3},
    }
    assert "has no <unk>" not in capsys.readouterr().err


def test_rare_words_are_unknown_in_training_too(tmp_path: Path) -> None:
    """The vocabulary has so many words, <unk> among them; of two that occur once, the alphabet decides."""
    write_texts(tmp_path / "out", write_corpora(tmp_path, train="the cat the\nsat the cat\n", test="bat sat cat\n"), 3)
    assert read_lines(tmp_path / "out/train.txt") == ["the cat the", "<unk> the cat"]
    assert read_lines(tmp_path / "out/test.txt") == ["<unk> <unk> cat"]
    counts = json.loads((tmp_path / "out/counts.json").read_text())
    assert (counts["train"]["words"], counts["train"]["unknown"], counts["test"]["unknown"]) == (3, 1, 2)


@pytest.mark.parametrize(
    ("split", "text", "place"),
    [
        ("valid", "the\nthe </s>\n", "valid.txt, line 2"),
        ("test", " \n\n", "test.txt"),
        ("train", "the \udcff\n", "train.txt, line 1"),
    ],
)
def test_the_place_of_a_mistake_is_named(tmp_path: Path, split: str, text: str, place: str) -> None:
    paths = write_corpora(tmp_path)
    paths[split].write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=place):
        write_texts(tmp_path / "out", paths)


@pytest.mark.slow
def test_the_data_directory_is_fairseqs_and_always_the_same(tmp_path: Path) -> None:
    write_corpora(tmp_path)
    vectors = tmp_path / "v.txt"
    vectors.write_text("the 1 2\nsat 3 4\n", encoding="utf-8")
    config = load(write_file(tmp_path, word_vectors={"file": str(vectors)}))
    run_steps(preparation_steps(config))
    data = tmp_path / "work/data-bin"
    assert read_lines(data / "dict.txt") == ["the 2", "cat 1", "sat 1"]
    assert sorted(path.name for path in data.iterdir() if path.suffix in (".bin", ".log")) == [
        "test.bin", "train.bin", "valid.bin",
    ]  # fmt: skip
    record = json.loads((tmp_path / "work/word-vectors/coverage.json").read_text())[str(vectors)]
    assert (data.parent / "word-vectors/1.bin").read_bytes().startswith(b"2 2\nthe ")
    assert (record["found"], record["missing_words"], record["coverage"]) == (2, ["cat"], 0.75)
