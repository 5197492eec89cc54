"""XLIFF, TMX and HTML documents. All parts that are not filled in remain byte-identical."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from fairseq_ext.corpora.languages import base_language
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.markup import (
    attribute,
    element,
    is_empty,
    is_end,
    is_start,
    name_of,
    tokens,
    units,
    with_attribute,
)
from fairseq_ext.runtime.pieces import runs, split
from fairseq_ext.translators.document import Edit, Filling, Parts, check_language

# States of XLIFF targets that are empty or copies of the source.
_UNTRANSLATED = ("new", "needs-translation", "initial")


def read_html(document: str, filling: Filling) -> Parts:
    """Parse HTML. The text of elements is translated. Of attributes, only the page's ``lang`` is changed."""
    for run, end in runs(document):
        text = "".join(part for part, _ in run)
        pieces = split(text, markup=True)
        yield Edit(text, (pieces,), "".join) if pieces.texts else text
        is_page = name_of(end).lower() == "html" and attribute(end, "lang") is not None
        yield with_attribute(end, "lang", filling.languages[1]) if is_page else end


def read_xliff(text: str, filling: Filling) -> Parts:
    """Parse XLIFF 1.2 and 2. Each ``target`` is filled from its ``source``, and marked as machine translation."""
    stream = tokens(text)
    unit, is_second, untranslated = "trans-unit", False, 0
    for token in stream:
        if name_of(token) == "xliff" and is_start(token):
            is_second = (attribute(token, "version") or "").startswith("2")
            unit = "segment" if is_second else unit
            yield _with_languages(token, "srcLang", "trgLang", filling) if is_second else token
            break
        yield token
    else:
        raise InputError("has no <xliff>; give an XLIFF file")
    open_elements: list[bool] = []  # for each open element, whether it may be translated
    for part in units(stream, unit):
        if isinstance(part, list):
            yield _xliff_unit(part, filling, is_second=is_second, is_wanted=not untranslated)
            continue
        if is_end(part) and open_elements:
            untranslated -= not open_elements.pop()
        elif is_start(part) and not is_empty(part):
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


def _xliff_unit(unit: list[str], filling: Filling, *, is_second: bool, is_wanted: bool) -> str | Edit:
    original = "".join(unit)
    source, target = element(unit, "source"), element(unit, "target")
    is_fixed = attribute(unit[0], "translate") == "no" or attribute(unit[0], "approved") == "yes"
    if source is None or not is_wanted or is_fixed or (target and not filling.every and _is_done(unit, target)):
        return original
    pieces = split("".join(unit[source[0] + 1 : source[1] - 1]), markup=True)
    if not pieces.texts:
        return original

    def write(texts: Sequence[str]) -> str:
        [text] = texts
        first, prefix = unit[0], unit[source[0]][1:].partition("source")[0]
        tag = unit[target[0]].replace("/>", ">") if target else f"<{prefix}target>"
        if is_second:
            first = with_attribute(with_attribute(first, "state", "translated"), "subState", "mt:unreviewed")
        else:
            tag = with_attribute(tag, "state", "needs-review-translation")
            tag = with_attribute(tag, "state-qualifier", "leveraged-mt")
        filled = f"{tag}{text}</{prefix}target>"
        if target:
            return "".join([first, *unit[1 : target[0]], filled, *unit[target[1] :]])
        after = (element(unit, "seg-source") or source)[1]
        space = unit[source[0] - 1] if unit[source[0] - 1].isspace() else ""
        return "".join([first, *unit[1:after], space, filled, *unit[after:]])

    return Edit(original, (pieces,), write)


def _is_done(unit: list[str], target: tuple[int, int]) -> bool:
    content = "".join(unit[target[0] + 1 : target[1] - 1]).strip()
    state = attribute(unit[target[0]], "state") or attribute(unit[0], "state")
    return bool(content) and state not in _UNTRANSLATED


def read_tmx(text: str, filling: Filling) -> Parts:
    """Parse TMX. Units without a target-language variant get one, with a property that names the system."""
    is_tmx = False
    for part in units(tokens(text), "tu"):
        is_tmx = is_tmx or (isinstance(part, str) and name_of(part) == "tmx")
        yield _tmx_unit(part, filling) if isinstance(part, list) else part
    if not is_tmx:
        raise InputError("has no <tmx>; give a TMX file")


def _tmx_unit(unit: list[str], filling: Filling) -> str | Edit:
    original = "".join(unit)
    variants = {base_language(_language(unit[begin])): (begin, end) for begin, end in _variants(unit)}
    source, target = (variants.get(base_language(language)) for language in filling.languages)
    if source is None or (target and _segment(unit, target).strip() and not filling.every):
        return original
    pieces = split(_segment(unit, source), markup=True)
    if not pieces.texts:
        return original
    begin, end = target or (len(unit) - 1, len(unit) - 1)
    space = unit[source[0] - 1] if unit[source[0] - 1].isspace() and target is None else ""
    if space and unit[begin - 1].isspace():  # keep the blanks before </tu>
        begin = end = begin - 1
    name = "xml:lang" if attribute(unit[source[0]], "lang") is None else "lang"
    code, system = filling.languages[1], html.escape(filling.system)

    def write(texts: Sequence[str]) -> str:
        [text] = texts
        made = f'<tuv {name}="{code}"><prop type="x-machine-translated">{system}</prop><seg>{text}</seg></tuv>'
        return "".join([*unit[:begin], space, made, *unit[end:]])

    return Edit(original, (pieces,), write)


def _variants(unit: list[str]) -> Iterator[tuple[int, int]]:
    begin = 0
    for index, token in enumerate(unit):
        if name_of(token) == "tuv":
            if is_start(token):
                begin = index
            else:
                yield begin, index + 1


def _language(tag: str) -> str:
    return attribute(tag, "xml:lang") or attribute(tag, "lang") or ""


def _segment(unit: list[str], variant: tuple[int, int]) -> str:
    own = unit[variant[0] : variant[1]]
    found = element(own, "seg")
    return "".join(own[found[0] + 1 : found[1] - 1]) if found else ""
