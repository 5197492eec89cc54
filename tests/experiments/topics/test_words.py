"""Which words can stand for a topic, what topics are used for, and how coherent their words are."""

import math
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.topics.words import (
    count_use,
    learn_topics,
    read_word_corpus,
    u_mass,
    words_by_use,
    words_near,
)
from fairseq_ext.text.model_tokenizer import read_model_tokenizer
from tests.models.tiny_causal import make_tokenizer

LINES = [
    "▁The ▁plot ▁was ▁weak .",
    "▁a ▁plot ▁of ▁the ▁Alien ▁s h ip",
    "▁camera ▁plot ▁4ever ▁ok",
    "▁camera ▁camera ▁batter y",
    "▁batter y ▁don ' t ▁batter ies",
]


def test_documents_are_the_candidates_of_drawn_lines(tmp_path: Path) -> None:
    """No stop words, no capitals, no short ones, nothing within a word; of how many lines, a line counts once."""
    path = tmp_path / "train.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    corpus, frequent, every, part, again = (
        read_word_corpus(path, tmp_path, "x", count=count, min_count=min_count, seed=1)
        for count, min_count in ((100, 2), (100, 3), (100, 1), (3, 1), (3, 1))
    )
    assert corpus.numbers.tolist() == [0, 1, 2, 3, 4]
    assert corpus.words == {"▁camera": "camera", "▁plot": "plot"}
    assert corpus.documents == [["plot"], ["plot"], ["camera", "plot"], ["camera", "camera"], []]
    assert list(frequent.words.values()) == ["plot"]
    assert list(every.words.values()) == ["camera", "plot", "weak"]
    assert len(part.documents) == 3
    assert part.numbers.tolist() == again.numbers.tolist()
    with pytest.raises(InputError, match=r"train\.txt: .*min_count"):
        read_word_corpus(path, tmp_path, "x", count=100, min_count=4, seed=1)


def test_tokens_of_a_model_are_words_as_they_are_spelt(tmp_path: Path) -> None:
    """Byte-level tokens are numbers in the text; a word begins with a space in their spelling."""
    lines = ["the camera shows the plot", "a camera and a plot", "batteries"] * 3
    make_tokenizer(tmp_path, lines, vocab_size=400)
    tokenizer = read_model_tokenizer(tmp_path / "tokenizer.json")
    path = tmp_path / "train.txt"
    path.write_text("\n".join(tokenizer.encode(f" {line}" for line in lines)), encoding="utf-8")
    corpus = read_word_corpus(path, tmp_path, "x", count=100, min_count=3, seed=1)
    spelt = {tokenizer.spellings()[piece]: word for piece, word in corpus.words.items()}
    assert {" camera": "camera", " plot": "plot"}.items() <= spelt.items()
    assert corpus.documents[1] == ["camera", "plot"]


def test_nearest_words_are_by_cosine() -> None:
    output = torch.tensor([[0.1, 0.0], [9.0, 9.0], [0.0, 5.0], [1.0, 0.0]])
    topics = torch.tensor([[1.0, 0.1], [0.0, 1.0]])
    assert words_near(topics, output, [1, 2, 3], 2) == [[3, 1], [2, 1]]
    # Length is no matter, equal ones keep their order, and only candidates are asked.
    assert words_near(topics, output, [0, 1, 3], 3)[0] == [0, 3, 1]


def test_words_by_use_are_typical_and_frequent() -> None:
    counts = torch.tensor([[50.0, 50.0], [30.0, 1.0], [3.0, 0.0], [1.0, 30.0]])
    # Frequent everywhere, frequent in one topic, rare in one topic, frequent in the other.
    assert words_by_use(counts, [0, 1, 2, 3], 2) == [[1, 2], [3, 0]]


class FixedTopics(torch.nn.Linear):
    """Three words; weights that are what the input says."""

    num_topics = 1
    decoder = SimpleNamespace(output_weight=torch.zeros(4, 2))

    def forward(self, src_tokens: torch.Tensor, features_only: bool) -> Any:
        first = src_tokens / 10
        return None, {"topic_weights": torch.stack([first, 1 - first], dim=-1)}


def test_use_is_counted_by_the_token_that_follows() -> None:
    batch = {
        "net_input": {"src_tokens": torch.tensor([[2, 4, 9], [5, 9, 9]])},
        "target": torch.tensor([[3, 2, 1], [3, 1, 1]]),  # 1 is padding
    }
    counts = count_use(FixedTopics(1, 1), [batch, batch], padding_idx=1)
    expected = torch.tensor([[0, 0], [0, 0], [0.8, 1.2], [1.4, 2.6]], dtype=torch.float64)
    torch.testing.assert_close(counts, expected)


def test_u_mass_is_the_mean_over_pairs_of_the_first_words_and_over_topics() -> None:
    # b after a: they share two documents, a is in three.
    one, other = math.log(2 / 3), math.log(2 / 2)
    documents = [["a", "b"], ["a", "b", "a"], ["a"], ["c"], []]
    found = u_mass([["a", "b", "c"], ["b", "a", "c"]], documents, [2, 3])
    assert found[2] == pytest.approx((one + other) / 2, abs=1e-9)
    assert found[3] < -10  # words that share no document


@pytest.mark.parametrize("method", ["lda", "nmf"])
def test_documents_on_three_subjects_have_three_topics(method: str) -> None:
    rng, subjects = random.Random(3), ["bank loan rate credit", "tree seed root leaf", "play win ball goal"]
    documents = [[], *(rng.choices(subjects[number % 3].split(), k=6) for number in range(45))]
    topics = learn_topics(method, documents, 3, 4, seed=7)
    assert sorted(map(sorted, topics)) == sorted(sorted(subject.split()) for subject in subjects)
    assert topics == learn_topics(method, documents, 3, 4, seed=7)
