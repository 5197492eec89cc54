"""Interfaces for clients of LibreTranslate and plug-ins of OPUS-CAT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fairseq_ext.corpora.languages import base_language
from fairseq_ext.corpora.placeholders import ANY
from fairseq_ext.inputs.errors import shown
from fairseq_ext.runtime.requests import Answer, Request
from fairseq_ext.serving.body import (
    Order,
    check_count,
    check_dialect,
    check_domain,
    check_size,
    default_route,
    domains_of,
)
from fairseq_ext.serving.limits import USUAL_BEAM, Limits
from fairseq_ext.serving.refusals import RefusedError

if TYPE_CHECKING:
    from fairseq_ext.runtime.translator import SystemTranslator

_FORMATS = ("text", "html")
# LibreTranslate's clients only know the statuses on the right.
_STATUSES = {401: 403, 413: 400, 415: 400, 422: 400, 503: 429}
_NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish", "fr": "French",
    "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "is": "Icelandic",
    "it": "Italian", "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak",
    "sl": "Slovenian", "sr": "Serbian", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese",
    "zh": "Chinese",
}  # fmt: skip
Write = Callable[[Sequence[Answer]], Any]


@contextmanager
def refuse_as_libretranslate() -> Iterator[None]:
    """Map the status of refusals to those that LibreTranslate's clients know."""
    try:
        yield
    except RefusedError as refusal:
        refusal.status = _STATUSES.get(refusal.status, refusal.status)
        raise


def _read_texts(
    texts: Sequence[Any],
    system: SystemTranslator,
    limits: Limits,
    *,
    key: str,
    route: str | None,
    markup: bool = False,
    dialect: Any = None,
    **options: Any,
) -> Order:
    """Return the order to translate texts."""
    _check_texts(texts, limits, key)
    route, dialect = route or default_route(system, key), check_dialect(dialect or ANY)
    return Order(tuple(Request(text, route, markup=markup, dialect=dialect) for text in texts), **options)


def _check_texts(texts: Sequence[Any], limits: Limits, key: str) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise RefusedError(422, f'"{key}" is {shown(text)}; give a text')
    check_size(texts, limits, key)


def read_libretranslate(
    content: Any, system: SystemTranslator, limits: Limits, domain: str | None
) -> tuple[Order, Write]:
    """Read the body of ``POST /translate`` in LibreTranslate's format.

    Returns:
        The order to translate, and a function that converts the answers to the response.
    """
    q, form = content["q"], content.get("format") or "text"
    is_list, is_auto = isinstance(q, list), content.get("source", "auto") == "auto"
    source, target = system.languages
    if not is_auto:
        _check_language(content["source"], source, "source")
    _check_language(content.get("target"), target, "target")
    if form not in _FORMATS:
        raise RefusedError(422, f'"format" is {shown(form)}; give one of {", ".join(_FORMATS)}')
    own_domain = content.get("domain") or None
    if own_domain is not None:
        check_domain(own_domain, "the body", system)
    wanted = content.get("alternatives") or 0
    wanted = int(wanted) if isinstance(wanted, str) and wanted.isdecimal() and len(wanted) < 9 else wanted  # form data
    alternatives = check_count(wanted, "alternatives", 0, limits.max_beam - 1)
    order = _read_texts(
        q if is_list else [q],
        system,
        limits,
        key="q",
        route=own_domain or domain,
        markup=form == "html",
        dialect=content.get("placeholders"),
        candidates=alternatives + 1,
        beam=max(alternatives + 1, min(USUAL_BEAM, limits.max_beam)) if alternatives else None,
    )

    def write(answers: Sequence[Answer]) -> dict[str, Any]:
        answer: dict[str, Any] = {"translatedText": [each.candidates[0].text for each in answers]}
        if alternatives:
            answer["alternatives"] = [[other.text for other in each.candidates[1:]] for each in answers]
        if is_auto:
            answer["detectedLanguage"] = [{"confidence": 100, "language": source} for _ in answers]
        return answer if is_list else {key: value[0] for key, value in answer.items()}

    return order, write


def _check_language(code: Any, wanted: str, key: str) -> None:
    """Check that a language code is the system's; regional variants and case are ignored (``de_AT``, ``DE``)."""
    if not isinstance(code, str) or base_language(code) != base_language(wanted):
        raise RefusedError(422, f'"{key}" is {shown(code)}; this service only supports {wanted}')


def languages(system: SystemTranslator) -> list[dict[str, Any]]:
    """Return the answer to ``GET /languages``."""
    source, target = system.languages
    return [{**_named(source), "targets": [target]}, {**_named(target), "targets": []}]


def settings(system: SystemTranslator, limits: Limits, needs_key: bool) -> dict[str, Any]:
    """Return the answer to ``GET /frontend/settings``."""
    source, target = system.languages
    return {
        "apiKeys": needs_key,
        "keyRequired": needs_key,
        "charLimit": limits.max_characters,
        "frontendTimeout": 500,
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
        "language": {"source": _named(source), "target": _named(target)},
    }


def _named(code: str) -> dict[str, str]:
    return {"code": code, "name": _NAMES.get(base_language(code), code)}


def detect(content: Any, system: SystemTranslator, limits: Limits) -> list[Any]:
    """Return the answer to ``POST /detect``: the probabilities of the system's two languages, highest first."""
    q = content.get("q") if isinstance(content, dict) else None
    texts: list[Any] = q if isinstance(q, list) else [q]
    _check_texts(texts, limits, "q")
    found = [_likely(text, system.languages) for text in texts]
    return found if isinstance(q, list) else found[0]


def _likely(text: str, codes: Sequence[str]) -> list[dict[str, Any]]:
    try:
        shares = dict(_identifier(tuple(sorted(set(map(base_language, codes))))).rank(text))
    except ValueError:  # a language that the identifier does not know
        return [{"confidence": 0, "language": codes[0]}]
    listed = [{"confidence": round(100 * shares[base_language(code)], 1), "language": code} for code in codes]
    return sorted(listed, key=lambda each: -float(str(each["confidence"])))


@lru_cache(maxsize=1)
def _identifier(languages: tuple[str, ...]) -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(languages)
    return identifier


def model_tags(query: Mapping[str, str], system: SystemTranslator) -> list[str]:
    """Return the answer to ``GetLanguagePairModelTags``: the domains."""
    _check_languages(query, system)
    return domains_of(system)


def read_opus_cat(
    query: Mapping[str, str], system: SystemTranslator, limits: Limits, domain: str | None
) -> tuple[Order, Write]:
    """Read the query of ``TranslateJson``. ``modelTag`` is the domain; it may be empty.

    Returns:
        The order to translate, and a function that converts the answers to the response.
    """
    _check_languages(query, system)
    tag = query.get("modelTag") or None
    if tag is not None:
        check_domain(tag, "modelTag", system)
    order = _read_texts([query.get("input", "")], system, limits, key="input", route=tag or domain)
    return order, lambda answers: {"translation": answers[0].candidates[0].text}


def _check_languages(query: Mapping[str, str], system: SystemTranslator) -> None:
    for key, language in zip(("srcLangCode", "trgLangCode"), system.languages, strict=True):
        _check_language(query.get(key), language, key)
