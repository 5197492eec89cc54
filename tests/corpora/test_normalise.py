"""Normalised text is sacremoses' text, although most lines never reach its substitutions."""

import random
import unicodedata

import pytest
from sacremoses import MosesPunctNormalizer

from fairseq_ext.corpora.folded_text import normal_form
from fairseq_ext.corpora.normalise import Normalise, normalise_lines
from fairseq_ext.corpora.text_files import collapse

PUNCTUATION = Normalise(unicode=None)
# One language for each set of rules that sacremoses has.
LANGUAGES = ("en", "pl", "de", "fr", "es", "cs")
# Every character that its rules mention, and what they look at beside them.
RULE_CHARACTERS = "aZ12  (()).!:?;,%`´'\"„“”‘’‚–—…«»<nº\u00a0\r\u3000\u2028Ccmß０"


def expected(lines: list[str], lang: str) -> list[str]:
    normaliser = MosesPunctNormalizer(lang)
    return [collapse(normaliser.normalize(line)) for line in lines]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_equals_sacremoses_on_its_own_characters(lang: str) -> None:
    rng = random.Random(lang)
    lines = [collapse("".join(rng.choices(RULE_CHARACTERS, k=rng.randint(0, 10)))) for _ in range(1000)]
    # Most of these hold only one or two of them.
    lines += [collapse(f"a {rng.choice(RULE_CHARACTERS)} b{rng.choice(RULE_CHARACTERS)}") for _ in range(300)]
    assert normalise_lines(lines, lang, PUNCTUATION) == expected(lines, lang)


@pytest.mark.parametrize(
    ("lang", "line", "normal"),
    [
        ("pl", "„Tak” – rzekł…", '"Tak" - rzekł...'),
        ("en", "the file(s)", "the file (s)"),
        ("en", "''No''", '" No "'),
        ("en", "5 % off : yes", "5% off: yes"),
        ("en", '"Yes", he said', '"Yes," he said'),
        ("de", '"Ja," sagte er', '"Ja", sagte er'),
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
