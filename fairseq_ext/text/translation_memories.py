"""Pairs from translation memories (TMX) and translators' files (XLIFF 1.2 and 2), parsed incrementally."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.files import open_binary, read_chunks
from fairseq_ext.text.raw_text import Markup, canonical
from fairseq_ext.text.text_files import Pair

SUFFIXES = (".tmx", ".xlf", ".xliff")
# Elements whose text is inline code of the document; the text of all other elements is part of the sentence.
_CODES = ("bpt", "ept", "it", "ph", "ut")
# Elements that represent one inline code, or a pair of codes around text.
_MARKERS = ("x", "bx", "ex", "sc", "ec", "g", "pc")
# Prefixes of XLIFF states (1.2 and 2) whose target is not a finished translation.
_UNFINISHED = ("new", "needs-", "initial")
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_MAX_DEPTH = 200
_READ_BYTES = 16 << 10
_NAMED_LANGS = 10

# The versions of a sentence, each with language (lower case, with hyphens) and element, and inline codes by id.
Unit = tuple[list[tuple[str, Element]], Mapping[str, str]]


def read_memory(path: Path, langs: tuple[str, str], markup: Markup, tally: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of a TMX or XLIFF file, compressed or not; count units without a translation.

    A language also matches its variants: ``en`` matches ``en-GB`` if there is no ``en``.
    """
    source, target = map(_normal, langs)
    pairs = units = 0
    others: set[str] = set()
    for versions, codes in _units(path):
        units += 1
        sides = [_version(versions, source, target), _version(versions, target, source)]
        if sides[0] is None or sides[1] is None:
            others.update(lang for lang, _ in versions if len(others) < _NAMED_LANGS)
            continue
        pairs += 1
        yield Pair(*(canonical(_text(side, markup, codes), tally) for side in sides if side is not None))
    if not pairs:
        there = ", ".join(sorted(others)) or "none"
        raise InputError(
            f"{path}: has no unit in both {langs[0]!r} and {langs[1]!r}; choose from its languages: {there}"
        )
    tally["lines"] += units
    tally["units_without_translation"] += units - pairs


def _units(path: Path) -> Iterator[Unit]:
    try:
        with open_binary(path, "rb") as file:
            yield from _parsed(read_chunks(file, str(path), _READ_BYTES))
    except (ParseError, ValueError, LookupError) as error:
        # ValueError and LookupError are raised for unsupported multi-byte and unknown encodings.
        raise InputError(f"{path}: cannot be read as TMX or XLIFF ({error}); correct it or download it again") from None


def _parsed(chunks: Iterable[bytes]) -> Iterator[Unit]:
    """Yield units as they end. Expat limits entity expansion, and reads neither a DTD nor other files."""
    parser: Any = XMLPullParser(("start", "end"))
    ancestors: list[Element] = []
    file_langs = ("", "")
    for chunk in chunks:
        parser.feed(chunk)
        for event, element in parser.read_events():
            name = _name(element)
            if event == "start":
                if not ancestors and name not in ("tmx", "xliff"):
                    raise ValueError(f"the root element is <{name}>")
                ancestors.append(element)
                if name in ("xliff", "file"):
                    file_langs = _file_langs(element) or file_langs
                if len(ancestors) > _MAX_DEPTH:
                    raise ValueError(f"elements are nested deeper than {_MAX_DEPTH}")
                continue
            ancestors.pop()
            if name in ("tu", "trans-unit", "unit"):
                yield from [(_versions_of_tu(element), {})] if name == "tu" else _translated(element, file_langs)
                # Without this, the tree would grow to the whole file.
                ancestors[-1].clear()
    parser.close()


def _versions_of_tu(unit: Element) -> list[tuple[str, Element]]:
    return [
        (_normal(version.get(_LANG) or version.get("lang") or ""), segment)
        for version in unit
        for segment in version
        if _name(segment) == "seg"
    ]


def _translated(unit: Element, langs: tuple[str, str]) -> Iterator[Unit]:
    """Yield the segments of an XLIFF unit: one in 1.2, any number in 2."""
    codes = {data.get("id", ""): "".join(data.itertext()) for data in unit.iter() if _name(data) == "data"}
    for segment in [unit] if _name(unit) == "trans-unit" else [part for part in unit if _name(part) == "segment"]:
        sides = {_name(side): side for side in segment}
        target = sides.get("target")
        state = segment.get("state") or (target is not None and target.get("state")) or ""
        is_finished = not state.startswith(_UNFINISHED) and unit.get("translate") != "no"
        yield (
            [
                (_normal(lang), sides[name])
                for name, lang in zip(("source", "target"), langs, strict=True)
                if name in sides and (is_finished or name == "source")
            ],
            codes,
        )


def _version(versions: list[tuple[str, Element]], lang: str, other_lang: str) -> Element | None:
    """Return the version in a language or, if there is none, in a variant of it other than ``other_lang``."""
    exact = [element for found, element in versions if found == lang]
    variants = [element for found, element in versions if found.startswith(f"{lang}-") and found != other_lang]
    return next(iter(exact + variants), None)


def _text(element: Element, markup: Markup, codes: Mapping[str, str]) -> str:
    """Return the text of an element, with or without its inline codes."""
    parts = [element.text or ""]
    for child in element:
        opening, closing = _marks(child, codes) if markup == "keep" else ("", "")
        is_text = _name(child) not in _CODES or (markup == "keep" and not opening)
        parts += [opening, _text(child, markup, codes) if is_text else "", closing, child.tail or ""]
    return "".join(parts)


def _marks(element: Element, codes: Mapping[str, str]) -> tuple[str, str]:
    """Return the text before and after an inline element's text: the document's code if known, else its tag."""
    name = _name(element)
    if name not in (*_CODES, *_MARKERS) or (name in _CODES and (element.text or len(element))):
        return "", ""
    if name == "pc":
        ends = [_code(element, codes, f"dataRef{end}", f"disp{end}") for end in ("Start", "End")]
        if any(ends):
            return ends[0], ends[1]
    elif code := _code(element, codes, "dataRef", "disp", "equiv-text"):
        return code, ""
    number = f' id="{element.get("id", element.get("x", ""))}"'
    return (f"<{name}{number}>", f"</{name}>") if name in ("g", "pc") else (f"<{name}{number}/>", "")


def _code(element: Element, codes: Mapping[str, str], reference: str, *attributes: str) -> str:
    shown_as = (element.get(attribute) for attribute in attributes)
    return codes.get(element.get(reference, "")) or next(filter(None, shown_as), "")


def _file_langs(element: Element) -> tuple[str, str] | None:
    """Return the source and target language of an XLIFF element, or None if it has none."""
    for source, target in (("srcLang", "trgLang"), ("source-language", "target-language")):
        if (lang := element.get(source)) is not None:
            return lang, element.get(target, "")
    return None


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _normal(lang: str) -> str:
    return lang.replace("_", "-").lower()
