"""n-gram models are the plain formula's, their probabilities sum to one, and all tokens count."""

import math
import random
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.ngrams import NgramModel, Table, likelihood, train_kneser_ney
from fairseq_ext.text.text_files import write_lines

WORDS = ["w0", "<unk>", "<UNK>", *(f"w{number}" for number in range(1, 198))]


def make_lines(count: int, seed: int) -> list[str]:
    """Words that depend on those before, a few of them frequent and many rare; some lines are empty."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        place, words = 0, []
        while rng.random() < 0.9:
            place = (3 * place * rng.randrange(2) + int(rng.paretovariate(0.5))) % len(WORDS)
            words.append(WORDS[place])
        lines.append(" ".join(words))
    return lines


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, train = tmp_path_factory.mktemp("texts"), make_lines(300, 0)
    known = set(" ".join(train).split())
    test = [" ".join(w if w in known else "<unk>" for w in line.split()) for line in make_lines(60, 2)]
    write_lines(folder / "train", train)
    write_lines(folder / "test", test)
    return folder


def test_the_longest_ngram_counts_and_weights_of_longer_contexts() -> None:
    words = {word: number for number, word in enumerate(["<unk>", "<s>", "</s>", "a", "b"])}
    single = Table(np.arange(5), np.array([-1.5, -99, -1, -0.5, -0.75]), np.array([0, -0.25, 0, -0.125, 0]))
    pairs = Table(np.array([1 * 5 + 3, 3 * 5 + 4]), np.array([-0.25, -0.375]), np.zeros(2))  # "<s> a" and "a b"
    scores = NgramModel(words, [single, pairs]).score(["a b", "b", "", "a oov", "oov oov a b", " a\tb "]) / math.log(10)
    known = [-0.25 - 0.375 - 1, -0.25 - 0.75 - 1, -0.25 - 1, -0.25 - 0.125 - 1.5 - 1, -0.25 - 3 - 0.5 - 0.375 - 1]
    assert scores.tolist() == pytest.approx([*known, known[0]])


@pytest.mark.parametrize(("order", "expected"), [(2, 46.0631239), (3, 47.7407719), (4, 47.5695538)])
def test_perplexity_is_that_of_the_plain_formula(texts: Path, tmp_path: Path, order: int, expected: float) -> None:
    """Values of Chen & Goodman's recursion over tuples, ``tests/recipes/plain_kneser_ney.py`` of version b7ee57e."""
    model = tmp_path / "model.npz"
    train_kneser_ney(texts / "train", order).save(model)
    nats, tokens = likelihood(model, texts / "test")
    assert math.exp(nats / tokens) == pytest.approx(expected, rel=1e-6)


def test_a_text_too_small_to_estimate_discounts_has_the_usual_ones(tmp_path: Path) -> None:
    write_lines(tmp_path / "text", ["a b", "a c"])
    # Five pairs: a, b and c follow one word, the end two. What their discounts leave goes to them and to <unk>.
    share = (3 * 0.5 + 1 * 1.0) / 5 / 5
    after_start = (2 - 1.0) / 2 + 1.0 / 2 * (0.5 / 5 + share)
    b_after_a = 0.5 / 2 + 0.5 * (0.5 / 5 + share)
    end_after_b = 0.5 / 1 + 0.5 * ((2 - 1.0) / 5 + share)
    log_prob = train_kneser_ney(tmp_path / "text", 2).score(["a b"])[0]
    assert math.exp(log_prob) == pytest.approx(after_start * b_after_a * end_after_b, rel=1e-6)


def test_probabilities_sum_to_one(texts: Path) -> None:
    model = train_kneser_ney(texts / "train", 3)
    words = [word for word in model.numbers if word not in ("<s>", "</s>")]
    for history in ([], ["w1", "w4"], ["w9", "<UNK>"], ["never-seen"]):
        # Of each word, the token before the end; and the end after no word at all.
        of_words = model.by_token([[*history, word] for word in words]).reshape(len(words), -1)[:, -2]
        assert (10**of_words).sum() + 10 ** model.by_token([history])[-1] == pytest.approx(1, abs=1e-5)


def test_reserved_words_are_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "text", ["a b", "a </s> b"])
    with pytest.raises(InputError, match="text, line 2: "):
        train_kneser_ney(tmp_path / "text", 5)
