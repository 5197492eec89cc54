"""Texts of words are cleaned, and unknown words are counted; the figure of the report has all models."""

import json
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.recurrent.report import GROUPS
from fairseq_ext.experiments.recurrent.stages import write_texts
from fairseq_ext.modules.combinations import COMBINATIONS
from fairseq_ext.text.text_files import read_lines

TEXTS = {"train": " the  cat \n\nthe <unk> sat\n", "valid": "the dog sat\n", "test": "a cat\na dog\n"}


def write_corpora(folder: Path, **texts: str) -> dict[str, Path]:
    paths = {split: folder / f"{split}.txt" for split in TEXTS}
    for split, path in paths.items():
        path.write_text({**TEXTS, **texts}[split], encoding="utf-8")
    (folder / "out").mkdir()
    return paths


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


def test_every_combination_is_in_a_panel() -> None:
    assert {*COMBINATIONS} == {name for members in GROUPS.values() for name in members}
