"""Lossless XML tokenizer: entities are not expanded, and unknown constructs are kept unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fairseq_ext.inputs.errors import InputError

_TOKEN = re.compile(
    r"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>
    |<[/A-Za-z_](?:[^<>"']|"[^"]*"|'[^']*')*>|[^<]+""",
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"</?([^\s/>]+)")
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


def tokens(text: str) -> Iterator[str]:
    """Yield tags, comments and the text between them. Joined, they give the document."""
    end = 0
    while end < len(text):
        found = _TOKEN.match(text, end)
        if found is None:
            raise InputError(f"has a tag without an end: {text[end : end + 40]!r}; give an XML or HTML file")
        yield found[0]
        end = found.end()


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
    return next((found[2] or found[3] or "" for found in _ATTRIBUTE.finditer(tag) if found[1] == name), None)


def with_attribute(tag: str, name: str, value: str) -> str:
    """Return a start tag with an attribute set."""
    for found in _ATTRIBUTE.finditer(tag):
        if found[1] == name:
            return f'{tag[: found.start()]}{name}="{value}"{tag[found.end() :]}'
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


def units(stream: Iterator[str], name: str) -> Iterator[str | list[str]]:
    """Yield tokens one by one, except elements with a given name, which are yielded as lists of tokens."""
    for token in stream:
        if not is_start(token) or name_of(token) != name or is_empty(token):
            yield token
            continue
        unit, depth = [token], 1
        while depth:
            token = next(stream, "")
            if not token:
                raise InputError(f"<{name}> is not closed: {unit[0][:80]!r}")
            unit.append(token)
            if is_start(token):
                depth += not is_empty(token)
            elif is_end(token):
                depth -= 1
        yield unit
