"""Texts of apps in JSON: files in one language, translated in place, and Xcode's string catalogues."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.documents.document import Edit, Filling, Parts, check_language, edit
from fairseq_ext.serve.documents.markup_documents import read_text
from fairseq_ext.serve.runtime.pieces import split
from fairseq_ext.text.languages import is_same_language

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*+")|([{}\[\],:])')
_PLACE = "\ue000{}\ue001"  # of a translation in the JSON


def read_json(path: Path, filling: Filling) -> Parts:
    """Parse the texts of an app. Keys, other values, and what describes a text (Flutter, web extensions) stay."""
    text = "".join(read_text(path))
    content = _parsed(text)
    is_extension = isinstance(content, dict) and all(
        isinstance(value, dict) and isinstance(value.get("message"), str) for value in content.values()
    )
    end = 0
    for value, keys in _strings(text):
        if not (is_extension and keys[-1] != "message") and not any(key.startswith("@") for key in keys):
            yield text[end : value.start()]
            yield _edit(json.loads(value[0]), filling, is_ascii=value[0].isascii() and "\\u" in value[0])
            end = value.end()
    yield text[end:]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not valid JSON ({error}); correct it") from None


def _strings(text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Yield each string that is a value, and the keys of the objects around it."""
    keys: list[str] = []  # of the open objects; empty for arrays
    last: re.Match[str] | None = None
    for token in _TOKEN.finditer(text):
        if token[1]:
            last = token
        elif token[2] == ":":
            keys[-1], last = json.loads(last[1]) if last else "", None
        else:
            if last:
                yield last, keys
            last = None
            if token[2] in "{[":
                keys.append("")
            elif token[2] != ",":
                keys.pop()
    if last:
        yield last, keys


def _edit(text: str, filling: Filling, *, is_ascii: bool = False) -> str | Edit:
    return edit(text, filling, write=lambda texts: json.dumps("".join(texts), ensure_ascii=is_ascii))


def read_xcstrings(path: Path, filling: Filling) -> Parts:
    """Parse a string catalogue. Strings without a translation get one, in the state ``needs_review``."""
    catalogue = _parsed("".join(read_text(path)))
    texts: list[str] = []
    try:
        check_language(catalogue["sourceLanguage"], filling.languages[0], "sourceLanguage")
        for key, entry in catalogue["strings"].items():
            _fill(entry, key, catalogue["sourceLanguage"], texts, filling)
    except (KeyError, AttributeError, TypeError) as error:
        raise InputError(f"is no string catalogue ({error!r}); give one that Xcode wrote") from None
    written = json.dumps(catalogue, ensure_ascii=False, indent=2, separators=(",", " : "))  # as Xcode does
    for number, part in enumerate(re.split('"\ue000(\\d+)\ue001"', written)):
        yield _edit(texts[int(part)], filling) if number % 2 else part


def _fill(entry: Any, key: str, source: str, texts: list[str], filling: Filling) -> None:
    """Put places into an entry, and add what to translate there to ``texts``."""
    versions = entry.get("localizations", {})
    language = next((code for code in versions if is_same_language(code, filling.code)), filling.code)
    is_done = language in versions and versions[language].get("stringUnit", {}).get("state") != "new"
    original = versions.get(source, {"stringUnit": {"value": key}})
    if entry.get("shouldTranslate") is not False and (not is_done or filling.every) and split(key).texts:
        entry["localizations"] = {**versions, language: _with_places(original, texts)}


def _with_places(version: Any, texts: list[str]) -> Any:
    """Return a version of a string with places for the translations of its units, which are added to ``texts``."""
    if not isinstance(version, dict):
        return version
    made = {key: _with_places(value, texts) for key, value in version.items() if key != "stringUnit"}
    if "stringUnit" in version:
        texts.append(version["stringUnit"]["value"])
        made["stringUnit"] = {"state": "needs_review", "value": _PLACE.format(len(texts) - 1)}
    return made
