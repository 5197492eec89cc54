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
from tests.experiments.word_lm.plain_kneser_ney import PlainKneserNey
from tests.real_corpora import corpus

pytestmark = pytest.mark.slow

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
    known = set(" ".join(make_lines(2000, 0)).split())
    for seed, (name, count) in enumerate({"train": 2000, "valid": 300, "test": 300}.items()):
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


def plain_perplexity(model: PlainKneserNey, text: Path) -> float:
    lines = split_lines(text)
    return math.exp(sum(map(model.nats, lines)) / sum(len(words) + 1 for words in lines))


def split_lines(path: Path) -> list[list[str]]:
    return [line.split() for line in read_lines(path)]


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
    expected = plain_perplexity(PlainKneserNey(split_lines(texts / "train"), 3, discount=0.7), texts / "test")
    assert perplexity(texts / "tabs.arpa", texts / "test") == pytest.approx(expected, rel=2e-4)


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


def test_penn_treebank_is_as_published(tmp_path: Path) -> None:
    """Zhang et al. (2016), Table 2: 148.007 and 141.186, which are those of the plain formula."""
    folder = corpus("ptb")
    train, valid, test = (folder / f"ptb.{name}.txt" for name in ("train", "valid", "test"))
    plain = PlainKneserNey(split_lines(train), 5)
    assert plain_perplexity(plain, valid) == pytest.approx(148.007, abs=0.005)
    assert plain_perplexity(plain, test) == pytest.approx(141.186, abs=0.005)
    train_kneser_ney(train, tmp_path / "model.arpa", held_out=valid)
    assert perplexity(tmp_path / "model.arpa", valid) == pytest.approx(146.9, abs=0.2)
    assert perplexity(tmp_path / "model.arpa", test) == pytest.approx(140.7, abs=0.2)


def as_stored(text: str) -> str:
    """Under the names that words have in the model."""
    return text.replace("<unk>", "‹unk›").replace("<UNK>", "‹UNK›")
