"""Reading a JSON file that a user may have written, changed or fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairseq_ext.inputs.errors import InputError


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """Read a JSON file whose top level is an object; ``remedy`` says in messages how to come by a right one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: not found; {remedy}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error}); {remedy}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: holds no object of names and values but a {type(content).__name__}; {remedy}")
    return content


def json_row(line: str) -> dict[str, Any]:
    """Parse a line of JSON lines; a ``ValueError`` says what is wrong with it."""
    try:
        row = json.loads(line)
        if "\\u" in line:
            # JSON can write half a character, which no file can hold.
            json.dumps(row, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not valid JSON ({error})") from None
    if not isinstance(row, dict):
        raise ValueError("is no JSON object; each line is one, with a key for each text")
    return row


def is_texts(value: Any) -> bool:
    """Whether something read from JSON is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def values_in(content: Any, key: Any = "") -> Iterator[tuple[Any, Any]]:
    """Every value in nested mappings and lists that is neither, with the key that it stands under."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from values_in(value, name)
    elif isinstance(content, list):
        for value in content:
            yield from values_in(value, key)
    else:
        yield key, content


def write_json(path: Path, content: Any) -> None:
    """Write JSON, the same text for the same content."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
