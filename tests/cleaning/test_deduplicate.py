"""Repetitions: the first of equal pairs stays, however the corpus is cut and bucketed."""

from __future__ import annotations

import io
import random
import unicodedata

import numpy as np
import pytest
import sentencepiece

from fairseq_ext.cleaning.clean import find_repeats, pair_keys
from fairseq_ext.corpora.folded_text import fold
from fairseq_ext.corpora.text_files import Pair, collapse

PAIRS = [
    Pair("A dog", "Pies"),
    Pair("a  DOG", "pies"),
    Pair("A dog", "Psy"),
    Pair("A dog 2", "Pies"),
    Pair("A dogPies", ""),
    Pair("Straße", "ﬁn"),
    Pair("STRASSE", "fin"),
]


@pytest.mark.parametrize(("by", "expected"), [("pair", [1, 6]), ("source", [1, 2, 6]), ("target", [1, 3, 6])])
def test_what_repeats_follows_the_sides_compared(by: str, expected: list[int]) -> None:
    assert np.flatnonzero(find_repeats([pair_keys(PAIRS, by)])).tolist() == expected


def test_cuts_and_buckets_do_not_matter() -> None:
    half = np.array([[1, 2], [1, 3], [1, 2]], dtype=np.uint64)
    assert find_repeats([half]).tolist() == [False, False, True]
    generator = random.Random(7)
    pairs = [Pair(str(generator.randrange(300)), "x") for _ in range(1000)]
    expected = [pair in pairs[:index] for index, pair in enumerate(pairs)]
    keys = pair_keys(pairs, "pair")
    for cuts in ([], [0, 500, 500, 999]):
        for bucket_pairs in (2_000_000, 13):
            assert find_repeats(np.split(keys, cuts), bucket_pairs).tolist() == expected


# What nobody sees, by what SentencePiece makes of it: nothing or a character of its own, and a space.
DROPPED = (
    "\x01\x08\x0e\x7f\x9f\u00ad\u034f\u115f\u180b\u200d\u202a\u202c\u2060\u2063\u2069\u3164\ufe0e\ufe0f\ufffb"
    "\U000e0067\U000e0100"
)
SPACES = "\u061c\u200b\u200c\u200e\u200f\u2581\ufeff\ufffd"


@pytest.fixture(scope="module")
def sentencepiece_model() -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    lines = iter(["the file is saved", "a file is here", "save the files"] * 20)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=model, vocab_size=30, hard_vocab_limit=False, minloglevel=2
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.mark.slow
def test_equal_encodings_have_equal_keys(sentencepiece_model: sentencepiece.SentencePieceProcessor) -> None:
    def encoded(text: str) -> str:
        return "".join(sentencepiece_model.encode(text, out_type=str))

    rng = random.Random(5)
    alphabet = "aAeé \u0301\u0308ßﬁſ½٣\u0345Ωᾳ각ᄀ\u1161か\u3099" + 2 * (DROPPED + SPACES)
    texts = [f"a{chr(code)}e" for code in range(0x3400) if unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs")]
    texts += ["".join(rng.choices(alphabet, k=rng.randint(0, 10))) for _ in range(20_000)]
    texts = [collapse(text) for text in texts]
    # A key that the encoding has, too, is the same for all text of this encoding.
    wrong = [text for text in texts if fold(text) != fold(encoded(text))]
    assert not wrong
    sprinkled = [collapse(rng.choice(SPACES).join((" the file", "is ", " saved"))) for _ in range(50)]
    assert {encoded(text) for text in sprinkled} == {encoded("the file is saved")}
    assert {fold(text) for text in sprinkled} == {"the file is saved"}
