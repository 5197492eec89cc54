"""Which words can stand for a topic, and how lines are drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.topics.word_corpus import candidate_words, read_word_corpus, whole_words

LINES = [
    "▁The ▁plot ▁was ▁weak .",
    "▁a ▁plot ▁of ▁the ▁Alien ▁s h ip",
    "▁camera ▁plot ▁4ever ▁ok",
    "▁camera ▁camera ▁batter y",
    "▁batter y ▁don ' t ▁batter ies",
]


def test_candidates_are_small_words_of_several_lines() -> None:
    texts = [list(whole_words(line.split())) for line in LINES]
    assert candidate_words(texts, 2) == ["camera", "plot"]
    # No stop words, no capitals, no short ones, nothing within a word; a line counts once.
    assert candidate_words(texts, 1) == ["camera", "plot", "weak"]
    assert candidate_words(texts, 3) == ["plot"]
    assert list(whole_words([])) == []


def test_documents_are_the_candidates_of_drawn_lines(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    corpus = read_word_corpus(path, tmp_path, "x", count=100, min_count=2, seed=1)
    assert corpus.numbers.tolist() == [0, 1, 2, 3, 4]
    assert corpus.words == {"▁camera": "camera", "▁plot": "plot"}
    assert corpus.documents == [["plot"], ["plot"], ["camera", "plot"], ["camera", "camera"], []]
    part, again = (read_word_corpus(path, tmp_path, "x", count=3, min_count=1, seed=1) for _ in range(2))
    assert len(part.documents) == 3
    assert part.numbers.tolist() == again.numbers.tolist()


def test_byte_level_pieces_are_numbers_of_what_they_spell(tmp_path: Path) -> None:
    """As GPT-2's are: a blank before a word is part of its piece, and what opens a line is another one."""
    symbols = ["plot", "Ġplot", "Ġcamera", "Ġbatter", "y", ".", "ĠÅĤÃ³d", "Ã"]
    vocab = tmp_path / "vocab.json"
    vocab.write_text(json.dumps({symbol: 10 + number for number, symbol in enumerate(symbols)}), encoding="ascii")
    path = tmp_path / "train.txt"
    path.write_text("10 11 12 15\n11 12 13 14\n16 16 11 17\n", encoding="utf-8")
    corpus = read_word_corpus(path, tmp_path, "x", count=9, min_count=1, seed=1)
    assert corpus.words == {"12": "camera", "11": "plot", "16": "łód"}
    assert corpus.documents == [["plot", "camera"], ["plot", "camera"], ["łód", "łód", "plot"]]


def test_no_candidate_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("17 29\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"train\.txt: .*min_count"):
        read_word_corpus(tmp_path / "train.txt", tmp_path, "x", count=9, min_count=1, seed=1)
