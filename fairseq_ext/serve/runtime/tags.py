"""The parts of a text: tags kept with their content, pairs of tags, and what ends a sentence."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from fairseq_ext.serve.runtime.markup import attribute, is_empty, is_end, name_of
from fairseq_ext.text.placeholders import ANY, message_syntax
from fairseq_ext.text.placeholders import parts as placeholder_parts

MOST_TAGS = 0x4000  # in a run
_MOST_NESTED = 100  # pairs
_PRIVATE = "[\U000f0000-\U000fc001]"  # stray marks, see fairseq_ext.serve.runtime.pieces
_REST = r"""(?:[^<>"']|"[^"]*"|'[^']*')*"""
# Marks of keyboard accelerators, in front of a word.
_ACCELERATOR = r"""(?<![^\s("'>])(?:&(?=[a-z0-9])(?![a-z]\w*;)|_(?-i:(?=[A-Z]))(?!\w*_))"""
# Comments and similar, up to the end of the text if they are not closed; elements without translatable content,
# including the inline codes of XLIFF and TMX; tags, also numbered as React's and escaped. Domain tags are words, which
# the vocabulary refuses, and Ruby's %<name>s is a placeholder. The bound keeps the time linear.
_TAG = rf"""<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<!\[[^>]*>|<\?[a-z].*?(?:\?>|\Z)|<\?[=\s].{{0,1000}}?\?>
    |<(?P<raw>script|style)\b{_REST}(?<!/)>.*?(?:</(?P=raw)\s*>|\Z)
    |<(?P<code>(?:\w+:)?(?:ph|bpt|ept|it|ut))(?=[\s>]){_REST}(?<!/)>.{{0,1000}}?</(?P=code)\s*>
    |<(?!domain:|PRI\w+>)(?!(?<!\d%<)(?<=%<)\w++>[\d.+-]*+[a-z])[!/]?[a-z]{_REST}>|</?\d++\s*+/?>
    |</?[a-z][^<>"']*["'][^<>]*>|</[a-z]\w*\s*\Z
    |&lt;(?!(?<!\d%&lt;)(?<=%&lt;)\w++&gt;[\d.+-]*+[a-z])[!/]?[a-z](?:[^<>&]|&(?![lg]t;))*+&gt;|{_PRIVATE}"""
_FLAGS = re.DOTALL | re.IGNORECASE | re.VERBOSE


class Syntax(NamedTuple):
    """How a text is written."""

    markup: re.Pattern[str]
    breaks: re.Pattern[str]  # what ends a line of the text
    is_escaped: bool  # whether & is written as &amp;


# A bar separates the plural forms of Symfony and Laravel.
_OTHER_BREAKS = r"\v\x1c-\x1e\x85\u2028\u2029|"
PLAIN = Syntax(re.compile(f"{_TAG}|{_ACCELERATOR}", _FLAGS), re.compile(rf"[\t\r\n\f{_OTHER_BREAKS}]+"), False)
# A line break in the source of HTML or XML is a blank, but a reference to one is a line break.
# The code of a template is written as it is, also if it has characters that are otherwise escaped.
_CODE = r"<%.{0,1000}?%>|\{\{[^{}<>&]*+[<>&][^{}]*+\}\}|\{%[^{}<>&]*+[<>&][^{}]*+(?<=%)\}"
HTML = Syntax(re.compile(f"{_CODE}|{_TAG}", _FLAGS), re.compile(f"[{_OTHER_BREAKS}]+"), True)
_REFERENCE = re.compile(r"&#(?:0*(?:9|1[03])|x0*[9ad]);", re.IGNORECASE)
# Entities that an XML document defines stay as they are written.
_ESCAPED_ACCELERATOR = _ACCELERATOR.replace("&", "&amp;")
XML = HTML._replace(
    markup=re.compile(rf"{_TAG}|{_ESCAPED_ACCELERATOR}|&(?!(?:amp|lt|gt|quot|apos);)[a-z][\w.-]*;", _FLAGS)
)
PREFORMATTED_XML = XML._replace(breaks=PLAIN.breaks)
# Brackets are those of links; footnotes and tasks stay. In %*d there is no emphasis.
_MARKDOWN = r"""(?P<ticks>`+)[^`](?:.*?[^`])??(?P=ticks)(?!`)|\[(?:\^[^\[\]]*+|[ x])\]
    |!?\[(?=(?:[^\[\]]|\[[^\[\]]*+\])*+\][(\[])|\](?:\([^()\s]*(?:\ "[^"]*")?\)|\[[^\[\]]*\])
    |(?<!%)(?<!%\.)\*\*?|~~|__"""
MARKDOWN = PLAIN._replace(markup=re.compile(rf"{_MARKDOWN}|{_TAG}", _FLAGS))

# HTML tags that end a sentence. All other tags are inline.
_BLOCK = re.compile(
    r"""address|article|aside|audio|base|blockquote|body|br|button|canvas|caption|col|colgroup|dd|details|dialog|div|dl|dt
    |fieldset|figcaption|figure|footer|form|h[1-6]|head|header|hr|html|iframe|input|legend|li|link|main|menu|meta|nav
    |object|ol|optgroup|option|p|pre|script|section|select|style|summary|table|tbody|td|template|textarea|tfoot|th|thead
    |title|tr|ul|video""",
    re.VERBOSE | re.IGNORECASE,
)
_UNTRANSLATED = ("code", "kbd", "math", "pre", "samp", "textarea", "var")
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


def runs(text: str, syntax: Syntax, dialect: str = ANY) -> Iterator[tuple[Run, Part]]:
    """Yield each run of text and inline tags, and the tag, line break or syntax of an ICU message that ends it.

    Pairs of tags are whole and nested within a run: where they are not, a tag ends the run.
    """
    parts = _kept_whole(list(_parts(text, syntax, dialect)))
    pairs, cutting = pair_up(parts)
    cutting |= _deep(pairs)
    ends = [place in cutting or _ends_run(part, place) for place, part in enumerate(parts)]
    numbers = list(accumulate(ends))
    run: Run = []
    for place, part in enumerate(parts):
        if ends[place] or numbers[pairs.get(place, place)] != numbers[place]:
            yield run, part
            run = []
        else:
            run.append(part)
    yield run, Part("", "")


def _parts(text: str, syntax: Syntax, dialect: str) -> Iterator[Part]:
    breaks, start = _breaks(text, syntax, dialect), 0
    for raw, is_text in cut(syntax.markup, text):
        if is_text:
            yield from (Part(*each) for each in _cut_at(breaks, raw, start) if each[0])
        else:
            yield Part(raw, html.unescape(raw) if raw.startswith("&lt;") else raw)
        start += len(raw)


def _breaks(text: str, syntax: Syntax, dialect: str) -> list[tuple[int, int]]:
    """Return the spans outside of tags and placeholders that end a sentence, last first."""
    text = syntax.markup.sub(lambda tag: "\0" * len(tag[0]), text)
    if syntax.is_escaped:
        text = _REFERENCE.sub(lambda reference: "\v" * len(reference[0]), text)
    spans = message_syntax(text)
    branches = [place for span in ((0, 0), *spans, (len(text), len(text))) for place in span]
    for begin, end in zip(branches[1::2], branches[2::2], strict=False):
        for number, part in enumerate(placeholder_parts(text[begin:end], dialect)):
            if number % 2 == 0:
                spans += [(begin + each.start(), begin + each.end()) for each in syntax.breaks.finditer(part)]
            begin += len(part)
    return sorted(spans, reverse=True)


def _cut_at(breaks: list[tuple[int, int]], part: str, start: int) -> Iterator[tuple[str, str]]:
    """Yield the text between breaks, and breaks with a tag, and remove these breaks from the list.

    Args:
        start: place of the part in the whole text.
    """
    end = 0
    while breaks and breaks[-1][0] < start + len(part):
        first, last = breaks.pop()
        yield part[end : first - start], ""
        end = last - start
        yield part[first - start : end], "<br/>"
    yield part[end:], ""


def _deep(pairs: Mapping[int, int]) -> set[int]:
    """Return the places of pairs within too many others."""
    found: set[int] = set()
    depth = 0
    for place in sorted(pairs):
        other = pairs[place]
        depth += 1 if other > place else -1
        found |= {place, other} if other > place and depth > _MOST_NESTED else set()
    return found


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
        if kind == "either":
            kind = "close" if count[key] else "open"
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


@lru_cache(maxsize=512)
def _half(tag: str) -> tuple[str, str]:
    """Return whether a tag opens or closes a pair, and a key that both halves share; empty if it stands alone."""
    if tag[:1] in tuple("*~_[!]"):  # of Markdown
        return ("open" if tag[-1] == "[" else "close" if tag[0] == "]" else "either"), tag if tag[0] in "*~_" else "["
    name = name_of(tag).lower()
    if not name or name in _WITHOUT_END:
        return "", ""
    if name in (*_OPENING, *_CLOSING) and not (name == "em" and attribute(tag, "startRef") is None):  # HTML's <em>
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
