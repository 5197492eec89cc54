"""Texts of words are cleaned, what is unknown is counted, and the dictionary has the words and nothing else."""

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
    return paths


def test_unknown_words_are_counted_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    write_texts(tmp_path / "out", write_corpora(tmp_path))
    assert read_lines(tmp_path / "out/train.txt") == ["the cat", "the <unk> sat"]
    assert read_lines(tmp_path / "out/test.txt") == ["<unk> cat", "<unk> <unk>"]
    assert json.loads((tmp_path / "out/counts.json").read_text()) == {
        "train": {"lines": 2, "tokens": 7, "unknown": 0, "words": 4},
        "valid": {"lines": 1, "tokens": 4, "unknown": 1},
        "test": {"lines": 2, "tokens": 6, "unknown": 3},
    }
    said = capsys.readouterr().err
    assert "test.txt: 2 lines, 6 tokens with the ends of lines; 3 unknown words become <unk> (a, dog …)" in said
    assert "has no <unk>" not in said


def test_a_training_text_without_unk_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    write_texts(tmp_path / "out", write_corpora(tmp_path, train="the cat\n"))
    assert "train.txt: has no <unk>, so models learn nothing of what is unknown" in capsys.readouterr().err


def test_rare_words_are_unknown_in_training_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The vocabulary has so many words, <unk> among them; which of two that occur once, the alphabet decides."""
    (tmp_path / "out").mkdir()
    write_texts(tmp_path / "out", write_corpora(tmp_path, train="the cat the\nsat the cat\n", test="bat sat cat\n"), 3)
    assert read_lines(tmp_path / "out/train.txt") == ["the cat the", "<unk> the cat"]
    assert read_lines(tmp_path / "out/test.txt") == ["<unk> <unk> cat"]
    counts = json.loads((tmp_path / "out/counts.json").read_text())
    assert (counts["train"]["words"], counts["train"]["unknown"], counts["test"]["unknown"]) == (3, 1, 2)
    assert "has no <unk>" not in capsys.readouterr().err


def test_texts_are_written_line_by_line(tmp_path: Path) -> None:
    """What comes before a mistake has been written when it is found, so no text is held in memory."""
    with pytest.raises(InputError, match="valid.txt, line 3"):
        write_texts(tmp_path / "out", write_corpora(tmp_path, valid="the cat\nsat\nthe </s>\n"))
    assert read_lines(tmp_path / "out/valid.txt") == ["the cat", "sat"]


@pytest.mark.parametrize("size", [0, 4])
def test_a_vocabulary_that_is_large_enough_changes_nothing(tmp_path: Path, size: int) -> None:
    (tmp_path / "out").mkdir()
    write_texts(tmp_path / "out", write_corpora(tmp_path), size)
    assert read_lines(tmp_path / "out/train.txt") == ["the cat", "the <unk> sat"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"valid": "the\nthe </s>\n"}, "valid.txt, line 2: holds '</s>', which is no word; take it out"),
        ({"test": " \n\n"}, "test.txt: has no words; give text"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, texts: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_texts(tmp_path / "out", write_corpora(tmp_path, **texts))


def test_bytes_that_are_no_utf8_are_named(tmp_path: Path) -> None:
    paths = write_corpora(tmp_path)
    paths["train"].write_bytes(b"the cat\nthe \xff\n")
    with pytest.raises(InputError, match="train.txt, line 2"):
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
