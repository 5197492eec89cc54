"""The language filter decides as the packages do whose models it evaluates, and what it loses is known."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from fairseq_ext.cleaning.language_id import DISTRACTORS, LanguageId, load_classifier
from fairseq_ext.corpora.text_files import read_lines, read_parallel
from fairseq_ext.inputs.errors import InputError
from tests.cleaning.judging import judge
from tests.real_corpora import corpus

BACKENDS = ("langid", "py3langid")
ENGLISH = "The committee will meet again on Thursday to discuss the budget."
POLISH = "Komisja zbierze się ponownie w czwartek, aby omówić budżet."
CZECH = "Výbor se znovu sejde ve čtvrtek, aby projednal rozpočet."
ODD_TEXTS = [
    "",
    "a",
    "ż",
    "12345",
    "ZAŻÓŁĆ GĘŚLĄ JAŹŃ",
    "THE QUICK BROWN FOX",
    "Это предложение написано по-русски.",
    "日本語のテキストです",
    "هذا نص عربي",
    "😀",
    "e\u0301te\u0301 a\u0300 la plage",
    ENGLISH,
    POLISH,
]


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


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lang", ["en", "pl"])
def test_real_text_is_classified_as_by_the_package(backend: str, lang: str) -> None:
    folder = corpus("parallel")
    paths = sorted(folder.glob(f"*en-pl/*.{lang}"))
    assert len(paths) == 7
    assert_same_as_package(backend, DISTRACTORS, [line for path in paths for line in read_lines(path)[:200]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_odd_text_is_classified_as_by_the_package(backend: str) -> None:
    assert_same_as_package(backend, DISTRACTORS, ODD_TEXTS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_neighbours_do_not_matter(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = load_classifier(backend, DISTRACTORS)
    together = classifier.probabilities(ODD_TEXTS)
    for row, text in enumerate(ODD_TEXTS):
        assert np.array_equal(classifier.probabilities([text])[0], together[row])
    monkeypatch.setattr("fairseq_ext.cleaning.language_id._CHUNK_BYTES", 7)
    assert np.array_equal(classifier.probabilities(ODD_TEXTS), together)
    assert classifier.probabilities([]).shape == (0, len(DISTRACTORS))


def found(reason: str | None) -> str | None:
    """The side and language that a reason names."""
    return reason and reason.partition(" (")[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_foreign_sides_are_dropped_and_named(backend: str) -> None:
    pairs = [(ENGLISH, POLISH), (ENGLISH, ENGLISH), (CZECH, POLISH), (POLISH, ENGLISH), ("OK", "OK"), ("Yes", "Окна")]
    reasons = judge(LanguageId(backend=backend), *pairs)  # type: ignore[arg-type]
    assert [found(reason) for reason in reasons] == [None, "target is en", "source is cs", "source is pl", None, None]
    assert reasons[1] == "target is en (1.00), not pl (0.00)"


def test_options_move_the_limits() -> None:
    pair = ("O comitê se reunirá novamente na quinta-feira.", ENGLISH)
    assert judge(LanguageId(), pair, langs=("pt_BR", "en-GB")) == [None]
    assert judge(LanguageId(), pair, langs=("es", "en")) != [None]

    def reason(text: str, **options: Any) -> str | None:
        return found(judge(LanguageId(**options), (text, POLISH))[0])

    short = "Das Haus"
    assert reason(short) is None
    assert reason(short, min_characters=len(short) + 1, min_probability=1.0) is None
    assert reason(short, min_characters=len(short), min_probability=1.0) == "source is de"
    assert reason(CZECH, distractors=["cs"]) == "source is cs"
    assert reason(CZECH, distractors=["en", "pl"]) == "source is pl"
    # However little is asked for, the likeliest language is never dropped.
    assert reason(ENGLISH, min_probability=1.0) is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_unknown_languages_are_named(backend: str) -> None:
    with pytest.raises(InputError, match="tlh"):
        LanguageId(backend=backend).check(("en", "tlh"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="tlh"):
        LanguageId(backend=backend, distractors=["de", "tlh"]).check(("en", "pl"))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most_lost", "least_found"),
    [("IT", 0.002, 0.75), ("LAW", 0.002, 0.75), ("MED", 0.003, 0.7), ("SUB", 0.0001, 0.97), ("TALK", 0.0001, 0.99)],
)
def test_good_text_stays_and_swapped_text_goes(name: str, most_lost: float, least_found: float) -> None:
    folder = corpus("parallel/en-pl")
    pairs = read_parallel(folder / f"{name}.en", folder / f"{name}.pl")[:12_000]
    long_enough = [pair for pair in pairs if min(map(len, pair)) >= 10]
    lost, swapped = judge(LanguageId(), *pairs), judge(LanguageId(), *long_enough, langs=("pl", "en"))
    assert np.mean([reason is not None for reason in lost]) <= most_lost
    assert np.mean([reason is not None for reason in swapped]) >= least_found
