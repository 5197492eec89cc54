"""The language filter decides as the packages do whose models it evaluates, and what it loses is known."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from fairseq_ext.cleaning.language_id import DISTRACTORS, LanguageId, load_classifier
from fairseq_ext.inputs.errors import InputError

BACKENDS = (pytest.param("langid", marks=pytest.mark.slow), "py3langid")  # the first one takes seconds to unpack
ENGLISH = "The committee will meet again on Thursday to discuss the budget."
POLISH = "Komisja zbierze się ponownie w czwartek, aby omówić budżet."
ODD_TEXTS = [
    "",
    "a",
    "ż",
    "12345",
    "ZAŻÓŁĆ GĘŚLĄ JAŹŃ",
    "Это предложение написано по-русски.",
    "日本語のテキストです",
    "😀",
]
ODD_TEXTS += ["e\u0301te\u0301 a\u0300 la plage", ENGLISH, POLISH]


@cache
def package(backend: str) -> Any:
    """The package's own classifier over all the languages it knows."""
    if backend == "langid":
        from langid import langid

        return langid.LanguageIdentifier.from_modelstring(langid.model, norm_probs=True)
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def assert_same_as_package(backend: str, langs: tuple[str, ...], texts: list[str]) -> None:
    classifier, reference = load_classifier(backend, langs), package(backend)
    reference.set_languages(langs)
    probabilities = classifier.probabilities(texts)
    expected = [reference.classify(text) for text in texts]
    assert [classifier.langs[best] for best in probabilities.argmax(axis=1)] == [lang for lang, _ in expected]
    np.testing.assert_allclose(probabilities.max(axis=1), [value for _, value in expected], atol=1e-5)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_odd_text_is_classified_as_by_the_package(backend: str) -> None:
    assert_same_as_package(backend, DISTRACTORS, ODD_TEXTS)


def test_neighbours_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = load_classifier("py3langid", DISTRACTORS)
    together = classifier.probabilities(ODD_TEXTS)
    for row, text in enumerate(ODD_TEXTS):
        assert np.array_equal(classifier.probabilities([text])[0], together[row])
    monkeypatch.setattr("fairseq_ext.cleaning.language_id._CHUNK_BYTES", 7)
    assert np.array_equal(classifier.probabilities(ODD_TEXTS), together)


def test_unknown_languages_are_named() -> None:
    with pytest.raises(InputError, match="tlh"):
        LanguageId(distractors=["de", "tlh"]).check(("en", "pl"))
