"""The filter that compares what a translation keeps: numbers, addresses, elements and placeholders."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from fairseq_ext.cleaning.filters import SIDES, Batch, Filter
from fairseq_ext.corpora.languages import base_language
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.models import Number

# 1,000,000 or 1.000.000 or 1 000 000 or 1'000'000
_THOUSANDS = re.compile(r"(?<!\d)\d{1,3}(?:([., '’])\d{3}(?:\1\d{3})*+)(?!\d)")
_DIGITS = re.compile(r"\d+")
_NO_ASCII_DIGIT = re.compile(r"(?![0-9])\d")
_NO_DIGITS = re.compile(r"\D")
_POSITION = re.compile(r"\d+\$")
_MAX_NAMED = 5
_MAX_CHARACTERS = 10_000
# Whether anything here, or a digit, may occur: most sentences end here, so this is to be quick.
_MAYBE = re.compile(r"[\d<%{$&@]|//|www\.")
_ADDRESS = re.compile(
    r"""(?:https?|ftp)://[!#-;=?-~]+        # in ASCII, as Japanese text may go on without a space
    | (?<![\w.@])www\.[!#-;=?-~]+
    | (?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)+
    """,
    re.ASCII | re.VERBOSE | re.IGNORECASE,
)
_ADDRESS_PART = re.compile(r"[^/.]*[/.]?")
_AFTER_ADDRESS = ".,;:!?)]}'\"*"
_TAG = re.compile(r"<(/?)([a-z][\w:.-]*+)([^<>]*+)>", re.ASCII | re.IGNORECASE)
_ATTRIBUTE = re.compile(r"=\s*[\"']")
_ESCAPED = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'))
_PLACEHOLDER = re.compile(
    r"""%(?:\d++\$|\(\w++\))[-#0+]*+\d*+(?:\.\d++)?(?:hh?|ll?|[jtz])?[a-z@]     # %1$s, %(name)s
    | (?<![\d%])%[-#0+]*+\d*+(?:\.\d++)?(?:hh?|ll?|[jtz])?[sdifgeuxcro@](?![a-z])    # %s, %5.2f, but no 100%d
    | (?<![\w^\\])\$?\{[ ]?[\w.]*+[ ]?(?:[:!][^{}\s]*+)?\}    # {}, {0}, {{name}}, ${name}, but no e^{x}, \sqrt{x}
    | (?<![\w$])\$[a-z_]\w*+(?!\$)    # $name, but no $x$
    """,
    re.ASCII | re.VERBOSE | re.IGNORECASE,
)


class Agreement(Filter):
    """Drops pairs that disagree on numbers, addresses or markup.

    Numbers are compared as digits, without separators of thousands and decimals, in any order and however often they
    occur. A number that only one side has counts against the pair if the other side, too, has one of its own, or if it
    has three digits or more and does not end in 00: others may well be written out (*18th century*, *sto procent*).

    Pairs with a side of more than 10,000 characters pass: they are no sentences, and looking for separators takes time
    quadratic in the length.
    """

    removed_keys: ClassVar[Mapping[str, str]] = {"written_out": "numbers that may be written out are forgiven"}
    numbers: bool = True
    """Compare numbers."""
    min_share: Annotated[Number, Field(ge=0, le=1)] = 0.5
    """Least share of numbers that both sides have, among these and those that count against the pair. Half of them
    leaves room for *6:30 p.m.* and *18:30*."""
    urls: bool = True
    """Compare web and mail addresses, as sets; a language's code in them does not matter."""
    markup: bool = True
    """Compare HTML and XML tags (their names, and how often they occur) and placeholders (``%s``, ``%(name)s``,
    ``{0}``, ``${name}``; as sets)."""

    def reasons(self, batch: Batch) -> Iterator[str | None]:
        langs = {base_language(lang) for lang in batch.langs}
        maybe = _MAYBE.search
        return (self._compare(pair, langs) if maybe(pair[0]) or maybe(pair[1]) else None for pair in batch.pairs)

    def _compare(self, pair: Pair, langs: Collection[str]) -> str | None:
        if max(map(len, pair)) > _MAX_CHARACTERS:
            return None
        # Most have the same digits in the same order, and nothing more to find out.
        if self.numbers and _DIGITS.findall(pair.source) != _DIGITS.findall(pair.target):
            one, other = (numbers(text) for text in pair)
            if _share(one, other) < self.min_share:
                return _difference("numbers", one, other)
        if self.urls:
            one, other = (addresses(text, langs) for text in pair)
            if one != other:
                return _difference("addresses", one, other)
        return _compare_markup(pair) if self.markup else None


def _share(source: set[str], target: set[str]) -> float:
    """Share of numbers found on both sides among those that should be."""
    found, lost = len(source & target), (source - target, target - source)
    # Those that are never written out in words.
    certain = (sum(len(number) > 2 and not number.endswith("00") for number in side) for side in lost)
    against = max(min(map(len, lost)), *certain)
    return found / (found + against) if against else 1.0


def numbers(text: str) -> set[str]:
    """The numbers of a text: runs of digits, joined over separators of thousands, without leading zeros.

    Those in placeholders (``%1$s``) are none.
    """
    text = strip_placeholders(text)
    if not text.isascii():
        text = _NO_ASCII_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)
    text = _THOUSANDS.sub(lambda match: _NO_DIGITS.sub("", match[0]), text)
    return {number.lstrip("0") or "0" for number in _DIGITS.findall(text)}


def _compare_markup(pair: Pair) -> str | None:
    one, other = (elements(text) for text in pair)
    if one != other:
        return _difference("tags", one, other)
    one, other = (placeholders(text) for text in pair)
    # One side may number them and the other not: %s, %2$s.
    unnumbered = [sorted(_POSITION.sub("", slot) for slot in side.elements()) for side in (one, other)]
    if set(one) != set(other) and unnumbered[0] != unnumbered[1]:
        return _difference("placeholders", one, other)
    return None


def _difference(what: str, source: set[str] | Counter[str], target: set[str] | Counter[str]) -> str:
    """What only the source and only the target has."""
    found = zip(SIDES, (source - target, target - source), strict=True)  # type: ignore[operator]
    parts = [f"only in the {side}: {' '.join(sorted(items)[:_MAX_NAMED])}" for side, items in found if items]
    return f"{what} {', '.join(parts)}"


def addresses(text: str, langs: Collection[str] = ()) -> set[str]:
    """Web and mail addresses, in lower case.

    Args:
        text: any.
        langs: codes that are left out where they are a part of their own, since a page's address differs by
            them in two languages: ``en.example.org/a`` and ``example.org/pl/a`` are equal then.
    """
    if "@" not in text and "//" not in text and "www." not in text:
        return set()
    found = (match.lower().rstrip(_AFTER_ADDRESS) for match in _ADDRESS.findall(text))
    # "https://" alone is none.
    return {_without(langs, address) for address in found if not address.endswith("//")}


def _without(langs: Collection[str], address: str) -> str:
    parts = _ADDRESS_PART.findall(address)
    return "".join(part for part in parts if part.rstrip("/.") not in langs).rstrip("/.")


def elements(text: str) -> Counter[str]:
    """Names of HTML or XML tags: closing ones (``/b``) and those with attributes (``a``).

    ``<name>`` alone may as well be a blank to fill in, which is translated: an element shows by its other
    tag. Attributes are not compared: some hold text.
    """
    for escaped, character in _ESCAPED:
        text = text.replace(escaped, character)
    tags = _TAG.findall(text) if "<" in text else ()
    return Counter(slash + name.lower() for slash, name, rest in tags if slash or _ATTRIBUTE.search(rest))


def placeholders(text: str) -> Counter[str]:
    """Placeholders of printf, Python, Java, gettext and shells."""
    return Counter(_PLACEHOLDER.findall(text)) if _may_have_placeholders(text) else Counter()


def strip_placeholders(text: str) -> str:
    """The text without placeholders."""
    return _PLACEHOLDER.sub(" ", text) if _may_have_placeholders(text) else text


def strip_markup(text: str) -> str:
    """The text without addresses, tags and placeholders."""
    return strip_placeholders(_TAG.sub(" ", _ADDRESS.sub(" ", text)))


def _may_have_placeholders(text: str) -> bool:
    return "%" in text or "{" in text or "$" in text
