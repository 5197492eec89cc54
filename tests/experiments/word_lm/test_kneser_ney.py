"""n-gram models are the plain formula's, their probabilities sum to one, and all tokens count."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from fairseq_ext.corpora.text_files import read_lines, write_lines
from fairseq_ext.experiments.word_lm import kneser_ney
from fairseq_ext.experiments.word_lm.kneser_ney import count_ngrams, likelihood, train_kneser_ney, with_tabs
from fairseq_ext.experiments.word_lm.varikn_worker import full_model
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.reranking.sentence_scores import load_kenlm
from tests.experiments.word_lm.plain_kneser_ney import PlainKneserNey, split_lines
from tests.real_corpora import corpus

pytestmark = pytest.mark.slow

COUNTS = {"train": 1000, "valid": 200, "test": 200}
WORDS = ["w0", "<unk>", "<UNK>", *(f"w{number}" for number in range(1, 1998))]


def make_lines(count: int, seed: int) -> list[str]:
    """Words that depend on those before, a few of them frequent and many rare."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        place, words = 0, ["w0"]
        while rng.random() < 0.9:
            place = (3 * place * rng.randrange(2) + int(rng.paretovariate(0.5))) % len(WORDS)
            words.append(WORDS[place])
        lines.append(" ".join(words))
    return lines


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    known = set(" ".join(make_lines(1000, 0)).split())
    for seed, (name, count) in enumerate({"train": 1000, "valid": 200, "test": 200}.items()):
        lines = [line.split() for line in make_lines(count, seed)]
        write_lines(folder / name, [" ".join(w if w in known else "<unk>" for w in words) for words in lines])
    return folder


@pytest.fixture(scope="module")
def arpa(texts: Path) -> Path:
    """Three-grams, their discounts fitted."""
    train_kneser_ney(texts / "train", texts / "model.arpa", order=3, held_out=texts / "valid")
    return texts / "model.arpa"


def perplexity(arpa: Path, text: Path) -> float:
    nats, tokens = likelihood(arpa, text)
    return math.exp(nats / tokens)


def test_it_has_all_ngrams_of_the_text(texts: Path, arpa: Path) -> None:
    lines = [["<s>", *line.split(), "</s>"] for line in read_lines(texts / "train")]
    grams = {tuple(line[start : start + n]) for line in lines for n in (1, 2, 3) for start in range(len(line) - n + 1)}
    # varikn's own word for what it does not know is one more.
    assert count_ngrams(arpa) == len(grams) + 1


def test_with_the_same_discounts_it_is_the_plain_formula(texts: Path) -> None:
    """varikn gives a little to <s> and to its own unknown word."""
    model = full_model(kneser_ney._copy_with_ends(texts / "train", texts / "ends"), 3, "")
    model.set_all_discounts(0.7)
    model.write_file(str(texts / "blanks.arpa"), True)
    write_lines(texts / "tabs.arpa", with_tabs(read_lines(texts / "blanks.arpa")))
    expected = PlainKneserNey(split_lines(texts / "train"), 3, discount=0.7).perplexity(texts / "test")
    assert perplexity(texts / "tabs.arpa", texts / "test") == pytest.approx(expected, rel=2e-4)


def test_the_plain_formula_by_hand() -> None:
    model = PlainKneserNey([["a", "b"], ["a", "c"]], 2, discount=0.5)
    # b follows one word of five pairs; a quarter of what the discounts leave, 2/5, is its share.
    assert model.probability(("b",)) == pytest.approx(0.5 / 5 + 2 / 5 / 4)
    # Of two words after a, half is left.
    assert model.probability(("a", "b")) == pytest.approx(0.5 / 2 + 1 / 2 * 0.2)
    # a after <s>, b after it, and the end.
    assert math.exp(-model.nats(["a", "b"])) == pytest.approx((0.75 + 0.25 * 0.2) * 0.35 * (0.5 + 0.5 * 0.4))


def test_discounts_are_fitted_to_the_held_out_text(texts: Path, arpa: Path) -> None:
    train_kneser_ney(texts / "train", texts / "left-out.arpa", order=3)
    assert perplexity(arpa, texts / "valid") < perplexity(texts / "left-out.arpa", texts / "valid")


def test_every_token_and_end_counts(texts: Path, arpa: Path) -> None:
    nats, tokens = likelihood(arpa, texts / "test")
    lines = read_lines(texts / "test")
    assert tokens == sum(len(line.split()) for line in lines) + len(lines)
    # The chance of each word alone is not of this order: the ends are in the sum.
    assert nats == pytest.approx(-load_kenlm(arpa, None)([as_stored(line) for line in lines]).sum())


@pytest.mark.parametrize("before", ["w1", "w1 w4", "<unk>", "w9 <UNK>"])
def test_probabilities_sum_to_one(texts: Path, arpa: Path, before: str) -> None:
    """What is left are <s> and varikn's own unknown word."""
    import kenlm

    model, start = kenlm.Model(str(arpa)), kenlm.State()
    state = kenlm.State()
    model.BeginSentenceWrite(start)
    for word in before.split():
        model.BaseScore(start, as_stored(word), state)
        start, state = state, kenlm.State()
    words = {word for line in read_lines(texts / "train") for word in line.split()}
    total = sum(10 ** model.BaseScore(start, as_stored(word), kenlm.State()) for word in [*words, "</s>"])
    assert 0.995 < total < 1.0002


def test_unk_is_a_word_like_any_other(arpa: Path) -> None:
    unknown, known = load_kenlm(arpa, None)(["never-seen", as_stored("<unk>")])
    assert known > unknown + 1


def test_what_varikn_says_of_its_model_is_what_kenlm_says(texts: Path, arpa: Path) -> None:
    """With single blanks again, its own reader takes the file."""
    import varikn

    blanks, stored = texts / "blanks.arpa", texts / "stored"
    write_lines(blanks, [line.replace("\t", " ") for line in read_lines(arpa)])
    write_lines(stored, [f"<s> {as_stored(line)} </s>" for line in read_lines(texts / "test")])
    model = varikn.Perplexity(str(blanks), 0, "", "", "", "", 0)
    total = 0.0
    for line in read_lines(stored):
        # <s> is given.
        total += sum([model.token_logprob(word) for word in line.split()][1:])
        model.clear_history()
    assert -total * math.log(10) == pytest.approx(likelihood(arpa, texts / "test")[0], rel=1e-3)


def test_tabs_stand_around_the_ngram() -> None:
    arpa = ["\\data\\", "ngram 1=1", "", "\\1-grams:", "-1.5 a -0.2", "-1 b", "", "\\2-grams:", "-0.3 a b", "\\end\\"]
    assert list(with_tabs(arpa)) == [
        *arpa[:4], "-1.5\ta\t-0.2", "-1\tb", "", "\\2-grams:", "-0.3\ta b", "\\end\\",
    ]  # fmt: skip


def test_reserved_words_and_orders_are_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "text", ["a b", "a </s> b"])
    with pytest.raises(InputError, match="text, line 2: holds '</s>', which marks the ends of lines; take it out"):
        train_kneser_ney(tmp_path / "text", tmp_path / "a.arpa")
    with pytest.raises(ValueError, match="order must be 2 to 6, got 1"):
        train_kneser_ney(tmp_path / "text", tmp_path / "a.arpa", order=1)
    assert not (tmp_path / "a.arpa").exists()


def test_the_command_tells_perplexities(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.arpa"
    kneser_ney.main([str(texts / "train"), str(model), "--order", "2", "--test", str(texts / "test")])
    tokens = likelihood(model, texts / "test")[1]
    assert f"test: perplexity {perplexity(model, texts / 'test'):.2f} over {tokens:,} tokens" in capsys.readouterr().out


def test_a_cut_of_penn_treebank_has_always_the_same_perplexity(tmp_path: Path) -> None:
    """Of all of it docs/word-language-models.md has the figures, with the commands that print them."""
    cut = {name: split_lines(corpus("ptb") / f"ptb.{name}.txt")[:count] for name, count in COUNTS.items()}
    known = {word for words in cut["train"] for word in words}
    for name, lines in cut.items():
        write_lines(tmp_path / name, [" ".join(w if w in known else "<unk>" for w in words) for words in lines])
    plain = PlainKneserNey(split_lines(tmp_path / "train"), 5)
    train_kneser_ney(tmp_path / "train", tmp_path / "model.arpa", held_out=tmp_path / "valid")
    for name, formula, fitted in (("valid", 165.834, 174.6), ("test", 184.721, 194.8)):
        assert plain.perplexity(tmp_path / name) == pytest.approx(formula, abs=0.001)
        assert perplexity(tmp_path / "model.arpa", tmp_path / name) == pytest.approx(fitted, abs=0.2)


def as_stored(text: str) -> str:
    """Under the names that words have in the model."""
    return text.replace("<unk>", "‹unk›").replace("<UNK>", "‹UNK›")
