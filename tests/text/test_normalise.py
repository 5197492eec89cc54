"""Normalised text is sacremoses' text, although most lines never reach its substitutions."""

import random
import unicodedata
from pathlib import Path

import pytest
import sentencepiece
from sacremoses import MosesPunctNormalizer

from fairseq_ext.text.folded_text import fold, normal_form
from fairseq_ext.text.normalise import Normalise, normalise_lines
from fairseq_ext.text.text_files import collapse
from tests.text.tiny_pieces import write_pieces

# One language for each set of rules that sacremoses has.
LANGUAGES = ("en", "pl", "de", "fr", "es", "cs")
# Every character that its rules mention, and what they look at beside them.
RULE_CHARACTERS = "aZ12  (()).!:?;,%`´'\"„“”‘’‚–—…«»<nº\u00a0\r\u3000\u2028Ccmß０"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_equals_sacremoses_on_its_own_characters(lang: str) -> None:
    rng, normaliser = random.Random(lang), MosesPunctNormalizer(lang)
    lines = [collapse("".join(rng.choices(RULE_CHARACTERS, k=rng.randint(0, 10)))) for _ in range(1000)]
    # Most of these hold only one or two of them.
    lines += [collapse(f"a {rng.choice(RULE_CHARACTERS)} b{rng.choice(RULE_CHARACTERS)}") for _ in range(300)]
    expected = [collapse(normaliser.normalize(line)) for line in lines]
    assert normalise_lines(lines, lang, Normalise(unicode=None)) == expected


@pytest.mark.parametrize(
    ("lang", "line", "normal"),
    [
        ("pl", "„Tak” – rzekł…", '"Tak" - rzekł...'),
        ("de_AT", '"Ja," sagte er', '"Ja", sagte er'),
        ("pl", "1 000 zł", "1 000 zł"),  # sacremoses alone makes a decimal of a no-break space
        ("el", "τι \u037e", "τι;"),  # the Greek question mark is canonically a semicolon
    ],
)
def test_what_moses_does(lang: str, line: str, normal: str) -> None:
    assert normalise_lines([line], lang, Normalise()) == [normal]


def test_punctuation_of_endless_lines_stays() -> None:
    within, beyond = ("„e\u0301”" + "a" * size for size in (9_997, 9_998))
    assert normalise_lines([within, beyond], "en", Normalise()) == [f'"é"{within[4:]}', f"„é”{beyond[4:]}"]


def test_results_are_collapsed_and_composed() -> None:
    rng = random.Random(1)
    lines = [collapse("".join(chr(rng.randrange(1, 0x3100)) for _ in range(rng.randint(0, 9)))) for _ in range(1000)]
    for options in (Normalise(), Normalise(unicode="NFKC")):
        result = normalise_lines(lines, "en", options)
        assert result == [collapse(line) for line in result]
    composed = normalise_lines(lines, "en", Normalise(punctuation=None))
    assert all(unicodedata.is_normalized("NFC", line) for line in composed)


def test_marks_in_a_row_stay() -> None:
    for count, is_sorted in ((499, True), (500, False)):
        marks = "\u0301\u0323" * count
        assert (normal_form("NFC", f"q{marks}") == "q" + "\u0323" * count + "\u0301" * count) is is_sorted


# What nobody sees, by what SentencePiece makes of it: nothing or a character of its own, and a space.
DROPPED = (
    "\x01\x08\x0e\x7f\x9f\u00ad\u034f\u115f\u180b\u200d\u202a\u202c\u2060\u2063\u2069\u3164\ufe0e\ufe0f\ufffb"
    "\U000e0067\U000e0100"
)
SPACES = "\u061c\u200b\u200c\u200e\u200f\u2581\ufeff\ufffd"


@pytest.mark.slow
def test_equal_encodings_have_equal_keys(tmp_path: Path) -> None:
    lines = ["the file is saved", "a file is here", "save the files"] * 20
    write_pieces(tmp_path / "model", 30, lines=lines, hard_vocab_limit=False)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model"))

    def encoded(text: str) -> str:
        return "".join(processor.encode(text, out_type=str))

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
