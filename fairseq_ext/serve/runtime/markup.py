"""Lossless XML tokenizer: entities are not expanded, and unknown constructs are kept unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from fairseq_ext.base.errors import InputError

_TOKEN = re.compile(
    r"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>
    |<[^\s!?<>=](?:[^<>"']|"[^"]*"|'[^']*')*>|[^<]+""",
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"</?([^\s/>]+)")
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")


def tokens(chunks: Iterable[str]) -> Iterator[str]:
    """Yield tags, comments and the text between them. Joined, they give the document, which is given in chunks."""
    text = ""
    for chunk in chunks:
        text, end = text + chunk, 0
        # A token at the end may go on in the next chunk.
        while (found := _TOKEN.match(text, end)) and found.end() < len(text):
            yield found[0]
            end = found.end()
        text = text[end:]
    while text:
        found = _TOKEN.match(text)
        if found is None:
            raise InputError(f"has a tag without an end: {text[:40]!r}; give an XML or HTML file")
        yield found[0]
        text = text[found.end() :]


def name_of(token: str) -> str:
    """Return the name of a tag without its prefix, or an empty string if the token is not a tag."""
    found = _NAME.match(token)
    return found[1].rpartition(":")[2] if found else ""


def is_start(token: str) -> bool:
    return token.startswith("<") and token[1] not in "/!?"


def is_end(token: str) -> bool:
    return token.startswith("</")


def is_empty(token: str) -> bool:
    """Return whether a tag is self-closing, ``<x/>``."""
    return token.endswith("/>")


def attribute(tag: str, name: str) -> str | None:
    """Return the value of an attribute as written, or None."""
    return next((found[2] or found[3] or found[4] or "" for found in _attributes(tag, name)), None)


def _attributes(tag: str, name: str) -> Iterator[re.Match[str]]:
    return (found for found in _ATTRIBUTE.finditer(tag) if found[1].lower() == name.lower())


def with_attribute(tag: str, name: str, value: str) -> str:
    """Return a start tag with an attribute set."""
    for found in _attributes(tag, name):
        return f'{tag[: found.start()]}{found[1]}="{value}"{tag[found.end() :]}'
    end = len(tag) - (2 if is_empty(tag) else 1)
    return f'{tag[:end].rstrip()} {name}="{value}"{tag[end:]}'


def element(unit: Sequence[str], name: str) -> tuple[int, int] | None:
    """Return the token range (start, end) of the first child with a given name, or None.

    Args:
        unit: tokens of the parent element.
    """
    depth = 0
    begin = None
    for index, token in enumerate(unit):
        if is_start(token):
            if depth == 1 and begin is None and name_of(token) == name:
                begin = index
                if is_empty(token):
                    return index, index + 1
            depth += not is_empty(token)
        elif is_end(token):
            depth -= 1
            if depth == 1 and begin is not None:
                return begin, index + 1
    return None


def units(stream: Iterator[str], names: Sequence[str]) -> Iterator[str | list[str]]:
    """Yield tokens one by one, except elements with given names, which are yielded as lists of tokens."""
    for token in stream:
        if not is_start(token) or name_of(token) not in names or is_empty(token):
            yield token
            continue
        unit, depth = [token], 1
        while depth:
            token = next(stream, "")
            if not token:
                raise InputError(f"{unit[0][:80]} is not closed; give the whole document")
            unit.append(token)
            if is_start(token):
                depth += not is_empty(token)
            elif is_end(token):
                depth -= 1
        yield unit
