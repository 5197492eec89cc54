"""The tokens of XML, as they are written: no entity is expanded, and nothing that is not understood is changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from fairseq_ext.inputs.errors import InputError

_TOKEN = re.compile(
    r"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>
    |<[/A-Za-z_](?:[^<>"']|"[^"]*"|'[^']*')*>|[^<]+""",
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"</?([^\s/>]+)")
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
# No tag, comment or unit is as long as that.
LONGEST = 1 << 24


def tokens(chunks: Iterable[str]) -> Iterator[str]:
    """Yield tags, comments and the text between them; joined, they are the document."""
    buffer = ""
    for chunk in chain(chunks, [""]):  # an empty one is the last
        buffer += chunk
        end = 0
        for found in _TOKEN.finditer(buffer):
            if found.start() != end or (chunk and found.end() == len(buffer)):
                break
            yield found[0]
            end = found.end()
        buffer = buffer[end:]
        if len(buffer) > LONGEST or (buffer and not chunk):
            raise InputError(f"has a tag that does not end: {buffer[:40]!r}; is it XML?")


def name_of(token: str) -> str:
    """The name of a tag without its prefix; empty for all else."""
    found = _NAME.match(token)
    return found[1].rpartition(":")[2] if found else ""


def is_start(token: str) -> bool:
    return token.startswith("<") and token[1] not in "/!?"


def is_end(token: str) -> bool:
    return token.startswith("</")


def is_empty(token: str) -> bool:
    """Whether a tag is an element of its own, ``<x/>``."""
    return token.endswith("/>")


def attribute(tag: str, name: str) -> str | None:
    """An attribute of a tag, as it is written."""
    return next((found[2] or found[3] or "" for found in _ATTRIBUTE.finditer(tag) if found[1] == name), None)


def with_attribute(tag: str, name: str, value: str) -> str:
    """A start tag in which an attribute has a value."""
    for found in _ATTRIBUTE.finditer(tag):
        if found[1] == name:
            return f'{tag[: found.start()]}{name}="{value}"{tag[found.end() :]}'
    end = len(tag) - (2 if is_empty(tag) else 1)
    return f'{tag[:end].rstrip()} {name}="{value}"{tag[end:]}'


def element(unit: Sequence[str], name: str) -> tuple[int, int] | None:
    """Where the first child of a name is among the tokens of an element: its first, and the one past its last."""
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
    """Yield tokens one by one, but all tokens of an element of a name in one list."""
    for token in stream:
        if not is_start(token) or name_of(token) != name or is_empty(token):
            yield token
            continue
        unit, depth, size = [token], 1, 0
        while depth:
            token = next(stream, "")
            size += len(token)
            if not token or size > LONGEST:
                raise InputError(f"<{name}> does not end: {unit[0][:80]!r}")
            unit.append(token)
            if is_start(token):
                depth += not is_empty(token)
            elif is_end(token):
                depth -= 1
        yield unit
