"""What OPUS-CAT's plug-ins for Trados, memoQ, OmegaT and Wordfast ask for, and how they are answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairseq_ext.serving.body import Limits, check_domain, domains_of
from fairseq_ext.serving.libretranslate import Texts, check_language, read_texts

if TYPE_CHECKING:
    from fairseq_ext.runtime.translator import SystemTranslator


def pairs(system: SystemTranslator) -> list[str]:
    """The answer to ``ListSupportedLanguagePairs``."""
    return ["-".join(system.languages)]


def tags(query: Mapping[str, str], system: SystemTranslator) -> list[str]:
    """The answer to ``GetLanguagePairModelTags``: the domains.

    Raises:
        RefusedError: 422 if the languages are others.
    """
    _check_languages(query, system)
    return domains_of(system)


def read_texts_of(query: Mapping[str, str], system: SystemTranslator, limits: Limits, domain: str | None) -> Texts:
    """Read what ``TranslateJson`` asks for; the domain is ``modelTag``, and none where that is empty.

    Raises:
        RefusedError: 413 or 422.
    """
    _check_languages(query, system)
    tag = query.get("modelTag") or None
    if tag is not None:
        check_domain(tag, "modelTag", system)
    return read_texts([query.get("input", "")], system, limits, key="input", route=tag or domain)


def answer(texts: Texts, answers: Any) -> dict[str, Any]:
    """The answer to ``TranslateJson``."""
    [[text]] = texts.fill(answers)
    return {"translation": text}


def _check_languages(query: Mapping[str, str], system: SystemTranslator) -> None:
    for key, language in zip(("srcLangCode", "trgLangCode"), system.languages, strict=True):
        check_language(query.get(key), language, key)
