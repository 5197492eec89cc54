"""Pairs from gettext catalogues (.po, .mo) of software translations, parsed by polib.

Catalogues are read from files, folders, wheels and other zips, and tar archives. Only finished translations are used:
fuzzy, obsolete, plural and untranslated entries are skipped. Stripping messages removes markup, keyboard accelerators
and line breaks, but keeps :mod:`~fairseq_ext.text.placeholders`.
"""

from __future__ import annotations

import html
import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import polib

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.files import read_file, read_members
from fairseq_ext.text.gettext_entries import PoFile
from fairseq_ext.text.placeholders import parts
from fairseq_ext.text.raw_text import Markup, canonical
from fairseq_ext.text.text_files import Pair, collapse

# Zope catalogues use keys as message ids and give the English text in an extracted comment.
_DEFAULT_TEXT = re.compile(r'Default:\s*"(.*)"', re.DOTALL)
# Short messages may be the same in both languages ("Name"); longer identical ones are untranslated.
_MAX_SAME_WORDS = 3

Entry: TypeAlias = polib.POEntry | polib.MOEntry


def read_catalogues(
    path: Path, target_lang: str, markup: Markup, tally: Counter[str], seen: set[Pair]
) -> Iterator[Pair]:
    """Yield the distinct pairs of all catalogues of a language in a file, folder or archive, in a fixed order.

    ``markup`` "keep" leaves messages unchanged; "strip" removes tags and the marks of keyboard accelerators. Pairs in
    ``seen`` are skipped; yielded pairs are added to it.
    """
    for name, data in find_catalogues(path, target_lang).items():
        for entry in _entries(name, data):
            tally["lines"] += 1
            result = pair_of(entry, markup)
            if isinstance(result, str):
                tally[f"messages_{result}"] += 1
                continue
            pair = Pair(*(canonical(side, tally) for side in result))
            if pair in seen:
                tally["messages_repeated"] += 1
                continue
            seen.add(pair)
            yield pair


def find_catalogues(path: Path, target_lang: str) -> dict[str, bytes]:
    """Return a language's catalogues in a file, folder or archive, by name, in order of the names.

    Matching paths are ``LANG/LC_MESSAGES/*`` and ``LANG.po``. A .po file is preferred to the corresponding .mo, since
    only the former marks fuzzy entries and has default texts.
    """
    if path.suffix in (".po", ".mo") and not path.is_dir():
        return {str(path): read_file(path)}
    code = re.escape(target_lang)
    catalogues = read_members(path, re.compile(rf"(?:.*/)?(?:{code}/LC_MESSAGES/[^/]+|{code})\.(?:po|mo)"))
    names = sorted(name for name in catalogues if name.endswith(".po") or f"{name[:-3]}.po" not in catalogues)
    if not names:
        raise InputError(
            f"{path}: has no gettext catalogue for {target_lang!r} "
            f"({target_lang}/LC_MESSAGES/NAME.po or {target_lang}.po); choose another package or language"
        )
    return {f"{path}/{name}": catalogues[name] for name in names}


def pair_of(entry: Entry, markup: Markup) -> Pair | str:
    """Return an entry's pair, or the reason to skip it."""
    for reason, applies in (
        ("obsolete", entry.obsolete),
        ("fuzzy", "fuzzy" in entry.flags),
        ("plural", entry.msgid_plural),
        ("untranslated", not entry.msgstr),
    ):
        if applies:
            return reason
    english = _english_text(entry)
    if english is None:
        return "key_without_text"
    plain = Pair(*strip_accelerators(clean_message(english), clean_message(entry.msgstr)))
    if not has_letters(plain.source) or not has_letters(plain.target):
        return "no_letters"
    if plain.source == plain.target and len(plain.source.split()) > _MAX_SAME_WORDS:
        return "untranslated"
    return plain if markup == "strip" else Pair(english, entry.msgstr)


def _english_text(entry: Entry) -> str | None:
    default = _DEFAULT_TEXT.search(entry.comment)
    if default and default.group(1).strip():
        return default.group(1).replace(r"\n", "\n").replace(r"\"", '"')
    return None if is_message_key(entry.msgid) else entry.msgid


def _entries(name: str, data: bytes) -> Iterator[Entry]:
    try:
        if not name.endswith(".mo"):
            yield from (entry.content for entry in PoFile.read(data).messages)
            return
        _check_compiled(data)
        yield from polib.mofile(data, encoding=polib.detect_encoding(data, binary_mode=True))
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    except (OSError, ValueError, struct.error) as error:
        raise InputError(
            f"{name}: cannot be read as a gettext catalogue ({error}); correct it, or download it again"
        ) from None


def _check_compiled(data: bytes) -> None:
    """Check that all messages of a .mo are inside the file: polib accepts truncated files."""
    order = ">" if data.startswith(b"\x95\x04\x12\xde") else "<"
    _, count, *tables = struct.unpack_from(f"{order}4I", data, 4)
    for table in tables:
        places = struct.iter_unpack(f"{order}2I", data[table : table + 8 * count])
        if table + 8 * count > len(data) or any(length + start >= len(data) for length, start in places):
            raise ValueError("it refers to bytes beyond its end")


# HTML tags only: <file> in a command's synopsis is text.
_BREAKING_TAGS = "blockquote|br|dd|div|dl|dt|h[1-6]|hr|li|ol|option|p|pre|table|tbody|td|th|thead|tr|ul"
_COMMENT = re.compile("<!--.*?-->", re.DOTALL)
_INLINE_TAGS = (
    "a|abbr|b|big|button|cite|code|em|font|i|img|input|kbd|label|mark|q|s|samp|small|span|strong|sub|sup|tt|u|var"
)
_BREAKING = re.compile(rf"</?(?:{_BREAKING_TAGS})(?:\s[^<>]*)?/?>", re.IGNORECASE)
_INLINE = re.compile(rf"</?(?:{_INLINE_TAGS})(?:\s[^<>]*)?/?>", re.IGNORECASE)
# Entities need a semicolon: html.unescape would turn the accelerator in "&notify" into "¬ify".
# Numbers are limited to seven digits, since Python cannot convert thousands of digits.
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]*+);", re.IGNORECASE | re.ASCII)
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff\x00-\x08\x0e-\x1b\x7f]")
_KEY = re.compile(r"[a-z][a-z0-9]*(?:_[A-Za-z0-9]+)+")


def clean_message(text: str) -> str:
    """Remove tags, resolve entities, collapse white space and line breaks."""
    text = _BREAKING.sub(" ", _COMMENT.sub("", text))
    text = _INLINE.sub("", text)
    text = _ENTITY.sub(lambda match: html.unescape(match.group()), text)
    return collapse(_INVISIBLE.sub("", text))


def strip_accelerators(source: str, target: str) -> tuple[str, str]:
    """Remove the marks of keyboard accelerators: ``&File``, ``_File``, ``Sa_ve``, ``Datei (&F)``.

    Both sides are considered together, since ``&`` and ``_`` inside a word also occur in names (``R&D``,
    ``log_level``), which are the same in both languages. Accelerators mostly differ.
    """
    for mark in "&_":
        if mark not in source and mark not in target:
            continue
        in_brackets = re.compile(rf"(?<!\s)\s*+\({mark}\w\)")
        source, target = in_brackets.sub("", source), in_brackets.sub("", target)
        leading = re.compile(rf"(?<![\w{mark}]){mark}(?=[^\W_])")
        inner = re.compile(rf"(?<=[^\W_]){mark}(?=[^\W\d_A-Z])")
        outside = [" ".join(parts(text)[::2]) for text in (source, target)]
        inner_words = [{word for word in text.split() if inner.search(word)} for text in outside]
        both_marked = all(words or leading.search(text) for words, text in zip(inner_words, outside, strict=True))
        source, target = (_substitute(leading, text) for text in (source, target))
        if both_marked and not inner_words[0] & inner_words[1] and max(map(len, inner_words)) == 1:
            source, target = (_substitute(inner, text) for text in (source, target))
    return source, target


def has_letters(text: str) -> bool:
    """Return whether a text has letters outside placeholders."""
    return any(character.isalpha() for part in parts(text)[::2] for character in part)


def is_message_key(text: str) -> bool:
    """Return whether a message id is a program's key (``label_add_item``) instead of English text."""
    return _KEY.fullmatch(text) is not None


def _substitute(pattern: re.Pattern[str], text: str) -> str:
    """Remove matches outside placeholders."""
    found = parts(text)
    found[::2] = [pattern.sub("", part) for part in found[::2]]
    return "".join(found)
