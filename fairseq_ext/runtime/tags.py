"""The tags of a text: which are kept with their content, which form pairs, and which end a sentence."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from fairseq_ext.runtime.markup import attribute, is_empty, is_end, name_of

MOST_TAGS = 0x4000  # in a run
_PRIVATE = "[\U000f0000-\U000fffff]"  # stray marks, see fairseq_ext.runtime.pieces
_REST = r"""(?:[^<>"']|"[^"]*"|'[^']*')*"""
# Comments and similar; elements without translatable content, including the inline codes of XLIFF and TMX; tags, also
# escaped ones.
_TAG = rf"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<!\[[^>]*>
    |<(?P<raw>(?:\w+:)?(?:script|style|ph|bpt|ept|it|ut))(?=[\s>]){_REST}(?<!/)>.*?</(?P=raw)\s*>|<[!/]?[A-Za-z]{_REST}>
    |&lt;[!/]?[A-Za-z](?:(?!&gt;)[^<])*&gt;|{_PRIVATE}"""
_FLAGS = re.DOTALL | re.IGNORECASE | re.VERBOSE
_OTHER_BREAKS = r"\v\x1c-\x1e\x85\u2028\u2029"


class Syntax(NamedTuple):
    """How a text is written."""

    markup: re.Pattern[str]
    breaks: re.Pattern[str]  # what ends a line of the text
    is_escaped: bool  # whether & is written as &amp;


_BREAK = rf"[\r\n\f{_OTHER_BREAKS}]+"
_REFERENCE = r"(?:&\#(?:0*1[03]|x0*[ad]);)+"
# An entity stays as it is written: in plain text, all do; in XML, those that the document defines.
PLAIN = Syntax(re.compile(rf"{_TAG}|&(?:\#\d+|\#x[\da-f]+|[a-z]\w*);", _FLAGS), re.compile(_BREAK), False)
# A line break in the source of HTML or XML is a blank, but a reference to one is a line break.
HTML = Syntax(re.compile(_TAG, _FLAGS), re.compile(rf"{_REFERENCE}|[{_OTHER_BREAKS}]+", _FLAGS), True)
XML = HTML._replace(markup=re.compile(rf"{_TAG}|&(?!(?:amp|lt|gt|quot|apos);)[a-z][\w.-]*;", _FLAGS))
PREFORMATTED_XML = XML._replace(breaks=re.compile(f"{_REFERENCE}|{_BREAK}", _FLAGS))

# HTML tags that end a sentence. All other tags are inline.
_BLOCK = re.compile(
    r"""address|article|aside|audio|base|blockquote|body|br|button|canvas|caption|col|colgroup|dd|details|dialog|div|dl|dt
    |fieldset|figcaption|figure|footer|form|h[1-6]|head|header|hr|html|iframe|input|legend|li|link|main|menu|meta|nav
    |object|ol|optgroup|option|p|pre|script|section|select|style|summary|table|tbody|td|template|textarea|tfoot|th|thead
    |title|tr|ul|video""",
    re.VERBOSE | re.IGNORECASE,
)
_UNTRANSLATED = ("code", "kbd", "pre", "samp", "textarea", "var")
_WITHOUT_END = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
# Elements of XLIFF and TMX that stand for the opening and closing half of a pair of tags.
_OPENING, _CLOSING = ("bpt", "bx", "sc", "sm"), ("ept", "ex", "ec", "em")
_HALF_ID = re.compile(r"(START|CLOSE)_(.*?)(?:_\d+)?")  # Angular's
_ONE_TAG = re.compile(r"\s*</?[A-Za-z][^<>]*>\s*")


class Part(NamedTuple):
    """A part of a text."""

    raw: str  # as written
    tag: str  # unescaped tag; empty for text. An element kept with its content has a tag without an end.


Run = list[Part]


def runs(text: str, syntax: Syntax) -> Iterator[tuple[Run, Part]]:
    """Yield each run of text and inline tags, and the tag or line break that ends it.

    Pairs of tags are whole and nested within a run: where they are not, a tag ends the run.
    """
    parts = _kept_whole(list(_parts(text, syntax)))
    pairs, crossing = pair_up(parts)
    ends = [place in crossing or _ends_run(part, place) for place, part in enumerate(parts)]
    numbers = list(accumulate(ends))
    run: Run = []
    for place, part in enumerate(parts):
        if ends[place] or numbers[pairs.get(place, place)] != numbers[place]:
            yield run, part
            run = []
        else:
            run.append(part)
    yield run, Part("", "")


def _parts(text: str, syntax: Syntax) -> Iterator[Part]:
    for raw, is_text in cut(syntax.markup, text):
        if not is_text:
            yield Part(raw, html.unescape(raw) if raw.startswith("&lt;") else raw)
            continue
        yield from (Part(inner, "" if goes_on else "<br/>") for inner, goes_on in cut(syntax.breaks, raw))


def _ends_run(part: Part, place: int) -> bool:
    is_block = _BLOCK.fullmatch(name_of(part.tag)) or part.tag.lower().startswith("<!doctype")
    return bool(is_block) or (part.tag != "" and place % (MOST_TAGS // 2) < 2 <= place)


def _kept_whole(parts: Run) -> Run:
    """Join the parts of each element that is not translated."""
    pairs, _ = pair_up(parts)
    found: Run = []
    place = 0
    while place < len(parts):
        part, end = parts[place], pairs.get(place, place)
        if end > place and _is_untranslated(part.tag):
            part = Part("".join(each.raw for each in parts[place : end + 1]), f"<{name_of(part.tag)}/>")
            place = end
        found.append(part)
        place += 1
    return found


def _is_untranslated(tag: str) -> bool:
    return (
        name_of(tag).lower() in _UNTRANSLATED
        or "no" in (attribute(tag, "translate"), attribute(tag, "its:translate"))
        or "notranslate" in (attribute(tag, "class") or "").split()
        or attribute(tag, "mtype") == "protected"
    )


def pair_up(parts: Sequence[Part]) -> tuple[dict[int, int], set[int]]:
    """Return the place of each half of a nested pair's other half, and the places of pairs that are not nested."""
    pairs: dict[int, int] = {}
    crossing: set[int] = set()
    waiting: list[tuple[str, int]] = []  # open tags
    count: Counter[str] = Counter()  # of open tags by key
    passed: dict[str, list[int]] = {}  # tags that were open when one around them was closed
    for place, part in enumerate(parts):
        kind, key = _half(part.tag)
        if kind == "open":
            waiting.append((key, place))
            count[key] += 1
        elif kind == "close" and count[key]:
            while (opened := waiting.pop())[0] != key:
                passed.setdefault(opened[0], []).append(opened[1])
                count[opened[0]] -= 1
            count[key] -= 1
            pairs[opened[1]], pairs[place] = place, opened[1]
        elif kind == "close" and passed.get(key):
            crossing |= {passed[key].pop(), place}
    return pairs, crossing


def _half(tag: str) -> tuple[str, str]:
    """Return whether a tag opens or closes a pair, and a key that both halves share; empty if it stands alone."""
    name = name_of(tag).lower()
    if not name or name in _WITHOUT_END:
        return "", ""
    if name in (*_OPENING, *_CLOSING):
        number = next(filter(None, (attribute(tag, key) for key in ("rid", "startRef", "i", "id"))), "")
        return "open" if name in _OPENING else "close", f"code {number}"
    if name == "it":
        return ("open" if attribute(tag, "pos") in ("begin", "open") else "close"), name
    if name in ("x", "ph"):
        if found := _HALF_ID.fullmatch(attribute(tag, "id") or ""):
            return ("open" if found[1] == "START" else "close"), f"code {found[2]}"
        inner = tag[tag.index(">") + 1 : tag.rindex("<")] if "</" in tag else ""
        codes = (inner, attribute(tag, "equiv-text"), attribute(tag, "equiv"), attribute(tag, "disp"))
        code = html.unescape(next(filter(None, codes), ""))
        return _half(code) if _ONE_TAG.fullmatch(code) else ("", "")
    if is_end(tag):
        return "close", name
    return ("", "") if is_empty(tag) or "</" in tag else ("open", name)


def cut(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, bool]]:
    """Yield the matches of a pattern with False, and the text between them, unless it is empty, with True."""
    start = 0
    for found in pattern.finditer(text):
        if start < found.start():
            yield text[start : found.start()], True
        yield found[0], False
        start = found.end()
    if start < len(text):
        yield text[start:], True
