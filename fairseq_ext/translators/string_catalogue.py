"""String catalogues of Xcode (``.xcstrings``): strings without a translation get one, in the state ``needs_review``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.languages import is_same_language
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.pieces import split
from fairseq_ext.runtime.tags import PLAIN
from fairseq_ext.translators.document import Edit, Filling, Parts, check_language
from fairseq_ext.translators.markup_documents import read_text

_PLACE = "\ue000{}\ue001"  # of a translation in the JSON


def read_xcstrings(path: Path, filling: Filling) -> Parts:
    """Yield the parts of a catalogue, which is written as Xcode does."""
    try:
        catalogue = json.loads("".join(read_text(path)))
        source, entries = catalogue["sourceLanguage"], catalogue["strings"]
        check_language(source, filling.languages[0], "sourceLanguage")
        texts: list[str] = []
        for key, entry in entries.items():
            _fill(entry, key, source, texts, filling)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise InputError(f"is not a string catalogue ({error!r}); give one that Xcode wrote") from None
    written = json.dumps(catalogue, ensure_ascii=False, indent=2, separators=(",", " : "))
    for part in re.split("(\ue000\\d+\ue001)", written):
        if part.startswith("\ue000"):
            text = texts[int(part[1:-1])]
            yield Edit(_escaped([text]), (split(text, PLAIN, filling.dialect),), _escaped)
        else:
            yield part


def _fill(entry: Any, key: str, source: str, texts: list[str], filling: Filling) -> None:
    """Put places into an entry, and add what to translate there to ``texts``."""
    versions = entry.get("localizations", {})
    language = next((code for code in versions if is_same_language(code, filling.languages[1])), filling.languages[1])
    is_done = language in versions and versions[language].get("stringUnit", {}).get("state") != "new"
    if entry.get("shouldTranslate") is False or (is_done and not filling.every):
        return
    own = versions.get(source, {"stringUnit": {"value": key}})
    before = len(texts)
    filled = _with_places(own, texts)
    if any(split(text).texts for text in texts[before:]):
        entry["localizations"] = {**versions, language: filled}
    else:
        del texts[before:]


def _with_places(version: Any, texts: list[str]) -> Any:
    """Return a version of a string with places for the translations of its units, which are added to ``texts``."""
    if not isinstance(version, dict):
        return version
    if "stringUnit" not in version:
        return {key: _with_places(value, texts) for key, value in version.items()}
    texts.append(version["stringUnit"]["value"])
    unit = {"state": "needs_review", "value": _PLACE.format(len(texts) - 1)}
    return {**{key: _with_places(value, texts) for key, value in version.items()}, "stringUnit": unit}


def _escaped(texts: Sequence[str]) -> str:
    return json.dumps("".join(texts), ensure_ascii=False)[1:-1]
