"""The filter that compares numbers, addresses, markup elements and placeholders, which translations preserve."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Annotated

from pydantic import Field

from fairseq_ext.base.sections import Number
from fairseq_ext.text.cleaning.filters import SIDES, Batch, Filter
from fairseq_ext.text.languages import base_language
from fairseq_ext.text.placeholders import OF_CORPORA, count, parts
from fairseq_ext.text.text_files import Pair

# 1,000,000 or 1.000.000 or 1 000 000 or 1'000'000
_THOUSANDS = re.compile(r"(?<!\d)\d{1,3}(?:([., '’])\d{3}(?:\1\d{3})*+)(?!\d)")
_DIGITS = re.compile(r"\d+")
_NO_ASCII_DIGIT = re.compile(r"(?![0-9])\d")
_NO_DIGITS = re.compile(r"\D")
_POSITION = re.compile(r"\d+\$")
_MAX_NAMED = 5
_MAX_CHARACTERS = 10_000
# A fast test for anything to compare; most sentences fail it.
_MAYBE = re.compile(r"[\d<%{$&@]|//|www\.")
_ADDRESS = re.compile(
    r"""(?:https?|ftp)://[!#-;=?-~]+        # ASCII only, as Japanese text may follow without a space
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


class Agreement(Filter):
    """Drops pairs that disagree on numbers, addresses or markup.

    Numbers are compared as sets of digit runs: thousands separators are removed, decimal separators split a number. A
    number on only one side counts against the pair if the other side also has an unmatched number, or if it has three
    or more digits and does not end in 00. Other numbers may be written out (*18th century*, *sto procent*).

    Pairs with a side of more than 10,000 characters pass: they are not sentences, and the search for separators takes
    quadratic time.
    """

    numbers: bool = True
    """Compare numbers."""
    min_share: Annotated[Number, Field(ge=0, le=1)] = 0.5
    """Minimum share of numbers on both sides, among these and the numbers that count against the pair. 0.5 allows
    *6:30 p.m.* for *18:30*."""
    urls: bool = True
    """Compare sets of web and mail addresses, ignoring language codes in them."""
    markup: bool = True
    """Compare HTML and XML tags (counts of their names) and sets of placeholders (``%s``, ``%(name)s``, ``{0}``,
    ``${name}``)."""

    def reasons(self, batch: Batch) -> Iterator[str | None]:
        langs = {base_language(lang) for lang in batch.langs}
        maybe = _MAYBE.search
        return (self._compare(pair, langs) if maybe(pair[0]) or maybe(pair[1]) else None for pair in batch.pairs)

    def _compare(self, pair: Pair, langs: Collection[str]) -> str | None:
        if max(map(len, pair)) > _MAX_CHARACTERS:
            return None
        # Fast path: most pairs have the same digits in the same order.
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
    """Return the share of numbers on both sides, among these and the numbers that count against the pair."""
    found, lost = len(source & target), (source - target, target - source)
    # Numbers that are never written out in words.
    certain = (sum(len(number) > 2 and not number.endswith("00") for number in side) for side in lost)
    against = max(min(map(len, lost)), *certain)
    return found / (found + against) if against else 1.0


def numbers(text: str) -> set[str]:
    """Return the numbers of a text: runs of digits, without thousands separators and leading zeros.

    Numbers in placeholders (``%1$s``) are ignored.
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
    # Only one side may number its placeholders: %s, %2$s.
    unnumbered = [sorted(_POSITION.sub("", slot) for slot in side.elements()) for side in (one, other)]
    if set(one) != set(other) and unnumbered[0] != unnumbered[1]:
        return _difference("placeholders", one, other)
    return None


def _difference(what: str, source: set[str] | Counter[str], target: set[str] | Counter[str]) -> str:
    """Describe the items found only in the source and only in the target."""
    found = zip(SIDES, (source - target, target - source), strict=True)  # type: ignore[operator]
    parts = [f"only in the {side}: {' '.join(sorted(items)[:_MAX_NAMED])}" for side, items in found if items]
    return f"{what} {', '.join(parts)}"


def addresses(text: str, langs: Collection[str] = ()) -> set[str]:
    """Return the web and mail addresses of a text, in lower case.

    Args:
        langs: language codes to remove where they form a whole part of an address, since the addresses of a page in
            two languages differ by them: ``en.example.org/a`` and ``example.org/pl/a`` become equal.
    """
    if "@" not in text and "//" not in text and "www." not in text:
        return set()
    found = (match.lower().rstrip(_AFTER_ADDRESS) for match in _ADDRESS.findall(text))
    # "https://" alone is not an address.
    return {_without(langs, address) for address in found if not address.endswith("//")}


def _without(langs: Collection[str], address: str) -> str:
    parts = _ADDRESS_PART.findall(address)
    return "".join(part for part in parts if part.rstrip("/.") not in langs).rstrip("/.")


def elements(text: str) -> Counter[str]:
    """Count the names of HTML or XML closing tags (``/b``) and tags with attributes (``a``).

    Other opening tags are ignored, since ``<name>`` may be a translatable blank to fill in; elements are detected by
    their closing tags. Attributes are not compared, since some contain text.
    """
    for escaped, character in _ESCAPED:
        text = text.replace(escaped, character)
    tags = _TAG.findall(text) if "<" in text else ()
    return Counter(slash + name.lower() for slash, name, rest in tags if slash or _ATTRIBUTE.search(rest))


def placeholders(text: str) -> Counter[str]:
    """Count the placeholders of a text."""
    return count(text, only=OF_CORPORA) if _may_have_placeholders(text) else Counter()


def strip_placeholders(text: str) -> str:
    """Return a text without placeholders."""
    return " ".join(parts(text, only=OF_CORPORA)[::2]) if _may_have_placeholders(text) else text


def strip_markup(text: str) -> str:
    """Return a text without addresses, tags and placeholders."""
    return strip_placeholders(_TAG.sub(" ", _ADDRESS.sub(" ", text)))


def _may_have_placeholders(text: str) -> bool:
    return "%" in text or "{" in text or "$" in text
