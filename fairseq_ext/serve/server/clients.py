"""Interfaces for clients of LibreTranslate and plug-ins of OPUS-CAT."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from starlette.routing import Route

from fairseq_ext import __version__
from fairseq_ext.base.errors import shown
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.serve.server.batcher import Outcome
from fairseq_ext.serve.server.body import Order, Upload, check_dialect, default_route, domain_in, domains_of
from fairseq_ext.serve.server.files import SUFFIXES
from fairseq_ext.serve.server.limits import USUAL_BEAM, Limits
from fairseq_ext.serve.server.refusals import RefusedError
from fairseq_ext.text.languages import base_language
from fairseq_ext.text.placeholders import ANY

_OPUS_CAT = ("srcLangCode", "trgLangCode")
_FORMATS = ("text", "html")
_CODE = re.compile(r"[\w-]{1,20}")
_CERTAIN = 0.5  # probability of a language that is not the system's
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
Write = Callable[[Outcome], Any]


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
    for text in texts[: limits.max_texts]:
        if not isinstance(text, str):
            raise RefusedError(422, f'"{key}" is {shown(text)}; give a text')
    for size, most in ((len(texts), limits.max_texts), (sum(map(len, texts)), limits.max_characters)):
        if size > most:
            raise RefusedError(413, f"Invalid request: request ({size}) exceeds text limit ({most})")


def read_libretranslate(
    content: Any, system: SystemTranslator, limits: Limits, domain: str | None
) -> tuple[Order, Write]:
    """Read the body of ``POST /translate`` in LibreTranslate's format.

    Returns:
        The order to translate, and a function that converts the outcome to the response.
    """
    q, form = require(content, "q")["q"], content.get("format") or "text"
    is_list, is_auto = isinstance(q, list), content.get("source") == "auto"
    check_languages(content, system)
    if form not in _FORMATS:
        is_code = isinstance(form, str) and _CODE.fullmatch(form)
        raise RefusedError(422, f"{form if is_code else shown(form)} format is not supported")
    alternatives = _alternatives(content.get("alternatives") or 0, limits.max_beam - 1)
    order = _read_texts(
        q if is_list else [q],
        system,
        limits,
        key="q",
        route=domain_in(content, "domain", system) or domain,
        markup=form == "html",
        dialect=content.get("placeholders"),
        candidates=alternatives + 1,
        beam=max(alternatives + 1, min(USUAL_BEAM, limits.max_beam)) if alternatives else None,
    )

    def write(outcome: Outcome) -> dict[str, Any]:
        answers = outcome.answers
        answer: dict[str, Any] = {"translatedText": [each.candidates[0].text for each in answers]}
        if alternatives:
            answer["alternatives"] = [[other.text for other in each.candidates[1:]] for each in answers]
        if is_auto:
            answer["detectedLanguage"] = [likely(text, system.languages)[0] for text in (q if is_list else [q])]
        return answer if is_list else {key: value[0] for key, value in answer.items()}

    return order, write


def require(content: Any, *keys: str) -> dict[str, Any]:
    """Return an object after checking that it has some keys, with the words of LibreTranslate."""
    if not isinstance(content, dict):
        raise RefusedError(422, "Invalid JSON format")
    for key in keys:
        if content.get(key) in (None, []) or (key != "q" and content[key] == ""):
            raise RefusedError(422, f"Invalid request: missing {key} parameter")
    return content


def check_languages(content: Any, system: SystemTranslator, keys: Sequence[str] = ("source", "target")) -> None:
    """Check the languages of a request: regional variants and case are ignored, and ``auto`` is any source."""
    source = system.languages[0]
    for key, wanted in zip(keys, system.languages, strict=True):
        code = require(content, key)[key]
        is_code = isinstance(code, str) and _CODE.fullmatch(code)
        if (is_code and base_language(code) == base_language(wanted)) or (code == "auto" and key == keys[0]):
            continue
        if is_code and base_language(code) == base_language(source):
            name = "{name} ({code})".format(**_named(source))
            raise RefusedError(422, f"{name} is not available as a target language from {name}")
        raise RefusedError(422, f"{code if is_code else shown(code)} is not supported")


def _alternatives(value: Any, most: int) -> int:
    try:
        return max(0, min(int(value), most))
    except (TypeError, ValueError, OverflowError):
        raise RefusedError(422, "Invalid request: alternatives parameter is not a number") from None


def languages(system: SystemTranslator) -> list[dict[str, Any]]:
    """Return the answer to ``GET /languages``."""
    source, target = system.languages
    return [{**_named(source), "targets": [target]}, {**_named(target), "targets": []}]


def read_suggestion(content: Any, system: SystemTranslator, limits: Limits) -> tuple[str, str]:
    """Return the text and the better translation of ``POST /suggest``."""
    require(content, "q", "s")
    check_languages(content, system)
    texts = content["q"], content["s"]
    _check_texts(texts, limits, "q")
    return texts


def read_file(content: Any, system: SystemTranslator) -> Upload:
    """Return the file of ``POST /translate_file``."""
    upload = require(content, "file")["file"]
    check_languages(content, system)
    if not isinstance(upload, Upload) or not upload.name:
        raise RefusedError(422, "Invalid request: empty file")
    return upload


def settings(system: SystemTranslator, limits: Limits, *, needs_key: bool, takes_corrections: bool) -> dict[str, Any]:
    """Return the answer to ``GET /frontend/settings``."""
    source, target = system.languages
    return {
        "apiKeys": needs_key,
        "keyRequired": needs_key,
        "charLimit": limits.max_characters,
        "frontendTimeout": 500,
        "suggestions": takes_corrections,
        "filesTranslation": True,
        "supportedFilesFormat": list(SUFFIXES),
        "language": {"source": _named(source), "target": _named(target)},
    }


def describe(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the answer to ``GET /spec``: the paths and their methods, in Swagger's form."""
    answers = {"responses": {"200": {"description": "answer in JSON; errors are objects with the key error"}}}
    paths = {each.path: {method.lower(): answers for method in each.methods or ()} for each in routes}
    return {"swagger": "2.0", "info": {"title": "fairseq_ext", "version": __version__}, "paths": paths}


def _named(code: str) -> dict[str, str]:
    return {"code": code, "name": _NAMES.get(base_language(code), code)}


def detect(content: Any, system: SystemTranslator, limits: Limits) -> list[Any]:
    """Return the answer to ``POST /detect``: the likely language of a text, then those of the system."""
    q = require(content, "q")["q"]
    texts: list[Any] = q if isinstance(q, list) else [q]
    _check_texts(texts, limits, "q")
    found = [likely(text, system.languages) for text in texts]
    return found if isinstance(q, list) else found[0]


def likely(text: str, codes: Sequence[str]) -> list[dict[str, Any]]:
    """Return the likely language of a text, then a system's others, with their probabilities among all languages.

    If no language has half of the probability, as for a single word, it is one of the system's.
    """
    shares = dict(_identifier().rank(text))
    best = max(shares, key=shares.__getitem__)
    own = sorted(codes, key=lambda code: -shares.get(base_language(code), 0.0))
    is_foreign = shares[best] >= _CERTAIN and best not in map(base_language, codes)
    return [
        {"confidence": round(100 * float(shares.get(base_language(code), 0.0)), 2), "language": code}
        for code in ([best] if is_foreign else []) + own
    ]


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def model_tags(query: Mapping[str, str], system: SystemTranslator) -> list[str]:
    """Return the answer to ``GetLanguagePairModelTags``: the domains."""
    check_languages(dict(query), system, _OPUS_CAT)
    return domains_of(system)


def read_opus_cat(
    query: Mapping[str, str], system: SystemTranslator, limits: Limits, domain: str | None
) -> tuple[Order, Write]:
    """Read the query of ``TranslateJson``. ``modelTag`` is the domain; it may be empty.

    Returns:
        The order to translate, and a function that converts the outcome to the response.
    """
    check_languages(dict(query), system, _OPUS_CAT)
    route = domain_in(query, "modelTag", system) or domain
    order = _read_texts([query.get("input", "")], system, limits, key="input", route=route)
    return order, lambda outcome: {"translation": outcome.answers[0].candidates[0].text}
