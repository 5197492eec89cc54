"""The language filter decides as the packages do whose models it evaluates, and what it loses is known."""

from copy import copy

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.cleaning.language_id import DISTRACTORS, check_sides, load_classifier
from fairseq_ext.text.text_files import Pair

pytestmark = pytest.mark.slow
ODD_TEXTS = ["", "a", "ż", "12345", "ZAŻÓŁĆ GĘŚLĄ JAŹŃ", "Это предложение написано по-русски."]
ODD_TEXTS += ["日本語のテキストです", "😀"]
ODD_TEXTS += ["e\u0301te\u0301 a\u0300 la plage", "The committee will meet again", "Komisja zbierze się ponownie"]


@pytest.mark.parametrize("backend", ["langid", "py3langid"])
def test_odd_text_is_classified_as_by_the_package(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if backend == "langid":
        from langid import langid

        reference = langid.LanguageIdentifier.from_modelstring(langid.model, norm_probs=True)
        monkeypatch.setattr(langid.LanguageIdentifier, "from_modelstring", lambda _: copy(reference))
    else:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        reference = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    classifier = load_classifier(backend, DISTRACTORS)
    reference.set_languages(DISTRACTORS)
    probabilities = classifier.probabilities(ODD_TEXTS)
    expected = [reference.classify(text) for text in ODD_TEXTS]
    assert [classifier.langs[best] for best in probabilities.argmax(axis=1)] == [lang for lang, _ in expected]
    np.testing.assert_allclose(probabilities.max(axis=1), [value for _, value in expected], atol=1e-5)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    # Neighbours do not matter.
    monkeypatch.setattr("fairseq_ext.text.cleaning.language_id._CHUNK_BYTES", 7)
    assert np.array_equal(classifier.probabilities(ODD_TEXTS), probabilities)


ENGLISH = [f"the committee adopted its report number {number} this morning" for number in range(60)]
GERMAN = [f"der Ausschuss hat heute Morgen den Bericht Nummer {number} angenommen" for number in range(60)]
REWORDED = [f"this morning the members agreed on document {number} of the committee" for number in range(60)]


def check(sources: list[str], targets: list[str], langs: tuple[str, str] = ("en", "de")) -> None:
    check_sides([Pair(*sides) for sides in zip(sources, targets, strict=True)], langs, "law")


@pytest.mark.parametrize(
    ("sources", "targets", "said"),
    [
        (GERMAN, ENGLISH, "law: the en side is in de and the de side in en"),
        (ENGLISH, REWORDED, "law: .* give a target side in de"),
        (GERMAN, [line.replace("heute", "gestern") for line in GERMAN], "law: .* give a source side in en"),
        (ENGLISH, ENGLISH, "law: both sides have the same text"),
    ],
)
def test_wrong_languages_are_named(sources: list[str], targets: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        check(sources, targets)


@pytest.mark.parametrize("langs", [("eng", "deu"), ("eng_Latn", "deu_Latn"), ("en-GB", "ger")])
def test_codes_of_three_letters_are_checked_too(langs: tuple[str, str]) -> None:
    check(ENGLISH, GERMAN, langs)
    with pytest.raises(InputError, match="law: the en side is in de"):
        check(GERMAN, ENGLISH, langs)


def test_some_untranslated_few_and_short_lines_pass() -> None:
    check(ENGLISH, GERMAN[:35] + ENGLISH[35:])  # 42 % are copies, as in lists of names
    check([*ENGLISH, *GERMAN[:20]], [*GERMAN, *ENGLISH[:20]])
    # Few or short lines are not checked.
    check(GERMAN[:49], ENGLISH[:49])
    with pytest.raises(InputError):
        check(GERMAN[:50], ENGLISH[:50])
    check(["der Bericht"] * 100, ["the report"] * 100)
