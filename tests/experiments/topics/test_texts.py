"""Which lines are continued; and metrics of texts, by hand on short strings."""

import math

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.topics.config import TEXT_METRICS
from fairseq_ext.experiments.topics.texts import bleu, choose_prompts, distinct_share, meteor, rouge_l, text_metrics


def test_prompts_are_the_first_words_of_long_lines() -> None:
    lines = ["a b c", "a b c d e", "x y", "k l m n", "o p q r"]
    assert choose_prompts(lines, 2, 2, "x") == [("a b", "c d e"), ("k l", "m n")]
    with pytest.raises(InputError, match=r"test\.txt: "):
        choose_prompts(["a b c"], 4, 3, "test.txt")


def test_distinct_share_is_over_all_texts() -> None:
    # Pairs: a b, b a, a b; b a. Two of four differ.
    assert distinct_share(["a b a b", "b a"], 2) == pytest.approx(50)
    assert distinct_share(["a b a b", "b a"], 3) == pytest.approx(100)  # a b a, b a b
    assert distinct_share(["a", ""], 2) == 0
    # Words are small, and punctuation marks stand apart.
    assert distinct_share(["Good, good ,"], 2) == pytest.approx(200 / 3)


def test_bleu_is_of_the_corpus() -> None:
    # 6 of 7 words and 4 of 5 pairs are right; 7 words for 8 are too few.
    texts, references = ["the cat sat", "a dog ran fast"], ["the cat sat", "a dog ran very fast"]
    right = math.sqrt(7 / 7 * 4 / 5) * math.exp(1 - 8 / 7)
    assert bleu(texts, references, 2) == pytest.approx(100 * right)
    found = text_metrics(texts, references)
    assert tuple(found) == TEXT_METRICS
    assert found["BLEU-2"] == pytest.approx(100 * right)


def test_rouge_l_is_the_longest_common_part() -> None:
    # the … sat down: 3 of 4 words and 3 of 5.
    found = rouge_l(["the dog sat down", ""], ["the cat has sat down", "x"])
    assert found == pytest.approx(100 * (2 * 3 / 4 * 3 / 5 / (3 / 4 + 3 / 5)) / 2)


def test_meteor_knows_stems_but_no_synonyms() -> None:
    # Three words in one chunk: F = 1, penalty 0.5·(1/3)³.
    assert meteor(["the cats sat"], ["the cat sat"]) == pytest.approx(100 * (1 - 0.5 * (1 / 3) ** 3))
    # A word of two is right: F = 10·P·R/(R + 9·P), one chunk of one word.
    assert meteor(["large one", ""], ["big one", "a word"]) == pytest.approx(100 * 0.5 * 0.5 / 2)
