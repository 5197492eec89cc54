"""XLIFF 1.2 and 2: a unit's ``target`` is filled from its ``source``, and its state says that a machine did it."""

from __future__ import annotations

from functools import partial

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime import markup
from fairseq_ext.runtime.markup import attribute, element, is_start, name_of, with_attribute
from fairseq_ext.runtime.pieces import split
from fairseq_ext.translators.document import Edit, Filling, Parts, check_language

# States of targets that are copies of the source, or nothing.
_UNTRANSLATED = ("new", "needs-translation", "initial")


def read_xliff(text: str, filling: Filling) -> Parts:
    """Yield the parts of a document."""
    stream = markup.tokens(text)
    unit, is_second, untranslated = "trans-unit", False, 0
    for token in stream:
        if name_of(token) == "xliff" and is_start(token):
            is_second = (attribute(token, "version") or "").startswith("2")
            unit = "segment" if is_second else unit
            yield _with_languages(token, "srcLang", "trgLang", filling) if is_second else token
            break
        yield token
    else:
        raise InputError("has no <xliff>; is it XLIFF?")
    open_elements: list[bool] = []  # whether each is to be translated
    for part in markup.units(stream, unit):
        if isinstance(part, list):
            yield _unit(part, filling, is_second=is_second, is_wanted=not untranslated)
            continue
        if markup.is_end(part) and open_elements:
            untranslated -= not open_elements.pop()
        elif is_start(part) and not markup.is_empty(part):
            open_elements.append(attribute(part, "translate") != "no")
            untranslated += not open_elements[-1]
        if name_of(part) == "file" and is_start(part) and not is_second:
            part = _with_languages(part, "source-language", "target-language", filling)
        yield part


def _with_languages(tag: str, source: str, target: str, filling: Filling) -> str:
    for name, language in zip((source, target), filling.languages, strict=True):
        found = attribute(tag, name)
        if found:
            check_language(found, language, name)
    return tag if attribute(tag, target) else with_attribute(tag, target, filling.languages[1])


def _unit(unit: list[str], filling: Filling, *, is_second: bool, is_wanted: bool) -> str | Edit:
    original = "".join(unit)
    source, target = element(unit, "source"), element(unit, "target")
    is_fixed = attribute(unit[0], "translate") == "no" or attribute(unit[0], "approved") == "yes"
    if source is None or not is_wanted or is_fixed or (target and not filling.every and _is_done(unit, target)):
        return original
    pieces = split("".join(unit[source[0] + 1 : source[1] - 1]), markup=True)
    if not pieces.texts:
        return original
    write = partial(_write, unit, source, target, filling.system, is_second)
    return Edit(original, (pieces,), lambda texts: write(texts[0]))


def _is_done(unit: list[str], target: tuple[int, int]) -> bool:
    content = "".join(unit[target[0] + 1 : target[1] - 1]).strip()
    state = attribute(unit[target[0]], "state") or attribute(unit[0], "state")
    return bool(content) and state not in _UNTRANSLATED


def _write(
    unit: list[str], source: tuple[int, int], target: tuple[int, int] | None, system: str, is_second: bool, text: str
) -> str:
    first, start = unit[0], unit[source[0]]
    prefix = start[1:].partition("source")[0]
    tag = unit[target[0]].replace("/>", ">") if target else f"<{prefix}target>"
    if is_second:
        first = with_attribute(with_attribute(first, "state", "translated"), "subState", "mt:unreviewed")
    else:
        tag = with_attribute(
            with_attribute(tag, "state", "needs-review-translation"), "state-qualifier", "leveraged-mt"
        )
    filled = f"{tag}{text}</{prefix}target>"
    if target:
        return "".join([first, *unit[1 : target[0]], filled, *unit[target[1] :]])
    after = (element(unit, "seg-source") or source)[1]
    space = unit[source[0] - 1] if unit[source[0] - 1].isspace() else ""
    return "".join([first, *unit[1:after], space, filled, *unit[after:]])
