"""Parallel sentences from gettext catalogues (.po, .mo), where software keeps its translations.

Catalogues are found in files, directories, wheels and other zips, and tar archives. Only finished
translations count: fuzzy, obsolete, plural and untranslated entries are left out.
"""

from __future__ import annotations

import re
import struct
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import polib

from fairseq_ext.corpora.compressed import DAMAGE, damage
from fairseq_ext.corpora.message_text import (
    clean_message,
    has_letters,
    is_message_key,
    strip_accelerators,
)
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.errors import InputError

_SUFFIXES = (".po", ".mo")
_ZIP_SUFFIXES = (".whl", ".zip")
_CHARSET = re.compile(rb"charset=([\w-]+)", re.IGNORECASE)
# Zope catalogues use keys as message ids and give the English text in an extracted comment.
_DEFAULT_TEXT = re.compile(r'Default:\s*"(.*)"', re.DOTALL)
# polib would end lines at these.
_SEPARATORS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# A .mo begins with its magic number, in either byte order.
_BYTE_ORDERS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}
# Short messages may well be the same in both languages ("Name"); long ones were left untranslated.
_MAX_SAME_WORDS = 3


class Catalogue(NamedTuple):
    """One catalogue's bytes; ``name`` says where they come from and ends in .po or .mo."""

    name: str
    data: bytes


def read_catalogues(path: Path, target_lang: str, dropped: Counter[str], seen: set[Pair]) -> Iterator[Pair]:
    """Yield the distinct pairs of all catalogues of a language in a file, directory or archive, in a fixed order.

    Args:
        path: a catalogue, a directory or a package's archive.
        target_lang: language code as in the catalogues' paths, e.g. ``de`` or ``pt_BR``.
        dropped: counts the entries left out, by reason.
        seen: pairs that are not repeated; those yielded are added.

    Raises:
        InputError: if the path holds no catalogue of the language, or one cannot be parsed.
    """
    for catalogue in find_catalogues(path, target_lang):
        for entry in _parse(catalogue):
            result = pair_of_entry(entry)
            if isinstance(result, str):
                dropped[result] += 1
            elif result in seen:
                dropped["repeated"] += 1
            else:
                seen.add(result)
                yield result


def find_catalogues(path: Path, target_lang: str) -> list[Catalogue]:
    """Return a language's catalogues in a file, directory or archive, sorted by name.

    ``LANG/LC_MESSAGES/*`` and ``LANG.po`` are looked for; a .po is preferred to the .mo made from
    it, since only the former tells fuzzy entries and default texts.

    Raises:
        InputError: if there is none.
    """
    if path.suffix in _SUFFIXES and path.is_file():
        return [Catalogue(str(path), path.read_bytes())]
    code = re.escape(target_lang)
    wanted = re.compile(rf"(?:.*/)?(?:{code}/LC_MESSAGES/[^/]+|{code})\.(?:po|mo)")
    try:
        found = dict(_members(path, wanted))
    except DAMAGE as error:
        raise damage(str(path), error) from None
    names = sorted(name for name in found if name.endswith(".po") or f"{name[:-3]}.po" not in found)
    if not names:
        raise InputError(
            f"{path}: holds no gettext catalogue of {target_lang!r} "
            f"({target_lang}/LC_MESSAGES/NAME.po or {target_lang}.po); choose another package or language"
        )
    return [Catalogue(f"{path}/{name}", found[name]) for name in names]


def pair_of_entry(entry: polib.POEntry | polib.MOEntry) -> Pair | str:
    """Return an entry's cleaned pair, or in one word why it is left out."""
    for reason, applies in (
        ("obsolete", entry.obsolete),
        ("fuzzy", "fuzzy" in entry.flags),
        ("plural", bool(entry.msgid_plural)),
        ("untranslated", not entry.msgstr),
    ):
        if applies:
            return reason
    english = _english_text(entry)
    if english is None:
        return "key without text"
    pair = Pair(*strip_accelerators(clean_message(english), clean_message(entry.msgstr)))
    if not has_letters(pair.source) or not has_letters(pair.target):
        return "no letters"
    if pair.source == pair.target and len(pair.source.split()) > _MAX_SAME_WORDS:
        return "untranslated"
    return pair


def _english_text(entry: polib.POEntry | polib.MOEntry) -> str | None:
    default = _DEFAULT_TEXT.search(entry.comment or "")
    if default and default.group(1).strip():
        return default.group(1).replace(r"\n", "\n").replace(r"\"", '"')
    return None if is_message_key(entry.msgid) else entry.msgid


def _parse(catalogue: Catalogue) -> Iterable[polib.POEntry | polib.MOEntry]:
    try:
        if catalogue.name.endswith(".mo"):
            _check_compiled(catalogue)
            return polib.mofile(catalogue.data)
        charset = _CHARSET.search(catalogue.data)
        encoding = charset.group(1).decode("ascii") if charset else "utf-8"
        return polib.pofile(_SEPARATORS.sub(" ", catalogue.data.decode(encoding)))
    except (OSError, ValueError, LookupError) as error:
        raise InputError(f"{catalogue.name}: cannot be read as a gettext catalogue ({error})") from None


def _check_compiled(catalogue: Catalogue) -> None:
    """Refuse a .mo that names bytes it does not have: polib would take messages cut short, or none, for whole."""
    data = catalogue.data
    order = _BYTE_ORDERS.get(data[:4])
    if order is None:
        raise damage(catalogue.name, ValueError("no compiled catalogue begins so"))
    try:
        count, *tables = struct.unpack_from(f"{order}3I", data, 8)
        for table in tables:
            # Each text is followed by a null byte, which its length does not count.
            for length, offset in struct.iter_unpack(f"{order}2I", _slice(data, table, 8 * count)):
                _slice(data, offset, length + 1)
    except (struct.error, EOFError):
        raise damage(catalogue.name, EOFError("it names bytes beyond its end")) from None


def _slice(data: bytes, start: int, length: int) -> bytes:
    if start + length > len(data):
        raise EOFError
    return data[start : start + length]


def _members(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of the files in a directory, zip or tar archive whose names match."""
    if path.is_dir():
        for file in path.rglob("*"):
            name = file.relative_to(path).as_posix()
            if wanted.fullmatch(name) and file.is_file():
                yield name, file.read_bytes()
    elif not path.is_file():
        raise InputError(f"{path}: not found; give a catalogue, a directory, a wheel, a zip or a tar archive")
    elif path.suffix in _ZIP_SUFFIXES or zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if wanted.fullmatch(name):
                    yield name, archive.read(name)
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as tar:
            for member in tar:
                content = tar.extractfile(member) if wanted.fullmatch(member.name) else None
                if content is not None:
                    yield member.name, content.read()
    else:
        raise InputError(f"{path}: is no catalogue (.po, .mo), directory, zip or tar archive")
