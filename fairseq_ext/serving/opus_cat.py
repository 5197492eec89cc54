"""What OPUS-CAT's plug-ins for Trados, memoQ, OmegaT and Wordfast ask for, and how they are answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fairseq_ext.serving.body import Order, check_domain, domains_of
from fairseq_ext.serving.libretranslate import Write, check_language, read_texts
from fairseq_ext.serving.limits import Limits

if TYPE_CHECKING:
    from fairseq_ext.runtime.translator import SystemTranslator


def pairs(system: SystemTranslator) -> list[str]:
    """The answer to ``ListSupportedLanguagePairs``."""
    return ["-".join(system.languages)]


def tags(query: Mapping[str, str], system: SystemTranslator) -> list[str]:
    """The answer to ``GetLanguagePairModelTags``: the domains."""
    _check_languages(query, system)
    return domains_of(system)


def read_order(
    query: Mapping[str, str], system: SystemTranslator, limits: Limits, domain: str | None
) -> tuple[Order, Write]:
    """What ``TranslateJson`` asks for, and what makes the answer; the domain is ``modelTag``, if that is not empty."""
    _check_languages(query, system)
    tag = query.get("modelTag") or None
    if tag is not None:
        check_domain(tag, "modelTag", system)
    order, fill = read_texts([query.get("input", "")], system, limits, key="input", route=tag or domain)
    return order, lambda answers: {"translation": fill(answers)[0][0]}


def _check_languages(query: Mapping[str, str], system: SystemTranslator) -> None:
    for key, language in zip(("srcLangCode", "trgLangCode"), system.languages, strict=True):
        check_language(query.get(key), language, key)
