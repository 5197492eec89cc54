"""TMX: a unit gets a variant in the target language where it has none, with a property that says who made it."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from fairseq_ext.corpora.languages import base_language
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.markup import attribute, element, is_start, name_of, tokens, units
from fairseq_ext.runtime.pieces import split
from fairseq_ext.translators.document import Edit, Filling, Parts

_MARK = "x-machine-translated"


def read_tmx(text: str, filling: Filling) -> Parts:
    """Yield the parts of a document."""
    is_tmx = False
    for part in units(tokens(text), "tu"):
        is_tmx = is_tmx or (isinstance(part, str) and name_of(part) == "tmx")
        yield _unit(part, filling) if isinstance(part, list) else part
    if not is_tmx:
        raise InputError("has no <tmx>; is it TMX?")


def _unit(unit: list[str], filling: Filling) -> str | Edit:
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
    if space and unit[begin - 1].isspace():  # the blanks before </tu> stay there
        begin = end = begin - 1
    name = "xml:lang" if attribute(unit[source[0]], "lang") is None else "lang"
    code, system = filling.languages[1], html.escape(filling.system)

    def write(texts: Sequence[str]) -> str:
        [text] = texts
        made = f'<tuv {name}="{code}"><prop type="{_MARK}">{system}</prop><seg>{text}</seg></tuv>'
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
