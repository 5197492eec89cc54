"""Read and write JSON files, with errors for files that users may have written or changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from fairseq_ext.base.errors import InputError, shown

_Kind = TypeVar("_Kind")


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """Read a JSON file whose top level is an object; ``remedy`` is the advice at the end of error messages."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait forever
            raise OSError("not a regular file")
        content = _parsed(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: not found; {remedy}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error}); {remedy}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object, got a {type(content).__name__}; {remedy}")
    return content


def read_typed(path: Path, kind: type[_Kind], remedy: str) -> _Kind:
    """Read a JSON file as a dataclass or ``TypedDict``, with strict types."""
    return as_typed(read_json(path, remedy), kind, path, remedy)


def as_typed(content: Any, kind: type[_Kind], path: Path, remedy: str) -> _Kind:
    """Convert the content of a JSON file; see :func:`read_typed`."""
    from pydantic import TypeAdapter, ValidationError  # take a tenth of a second to import

    try:
        typed: _Kind = TypeAdapter(kind).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ": ".join(map(str, first["loc"]))
        raise InputError(f"{path}: {where}: {first['msg']}, got {shown(first['input'])}; {remedy}") from None
    return typed


def json_row(line: str) -> dict[str, Any]:
    """Parse an object of a JSON lines file; raise ``ValueError`` if the line is invalid."""
    try:
        row = _parsed(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not valid JSON ({error})") from None
    if not isinstance(row, dict):
        raise ValueError("is not a JSON object; write one object per line, with a key for each text")
    return row


def _parsed(text: str) -> Any:
    content = json.loads(text)
    if "\\u" in text:
        # Raises UnicodeEncodeError for lone surrogates, which JSON allows but UTF-8 does not.
        json.dumps(content, ensure_ascii=False).encode()
    return content


def is_texts(value: Any) -> bool:
    """Return whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def values_in(content: Any, key: Any = "") -> Iterator[tuple[Any, Any]]:
    """Yield all scalar values in nested mappings and lists, each as a pair of its innermost key and the value."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from values_in(value, name)
    elif isinstance(content, list):
        for value in content:
            yield from values_in(value, key)
    else:
        yield key, content


def write_json(path: Path, content: Any) -> None:
    """Write JSON; equal content gives equal text."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
