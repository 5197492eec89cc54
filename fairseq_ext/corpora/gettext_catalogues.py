"""Parallel sentences from gettext catalogues (.po, .mo), where software keeps its translations.

Catalogues are found in files, directories, wheels and other zips, and tar archives. Only finished
translations count: fuzzy, obsolete, plural and untranslated entries are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairseq_ext.corpora.archives import read_file, read_members
from fairseq_ext.corpora.compressed import damage, shown
from fairseq_ext.corpora.gettext_messages import Message, read_compiled, read_source
from fairseq_ext.corpora.message_text import (
    clean_message,
    has_letters,
    is_message_key,
    strip_accelerators,
)
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError

_SUFFIXES = (".po", ".mo")
# Zope catalogues use keys as message ids and give the English text in an extracted comment.
_DEFAULT_TEXT = re.compile(r'Default:\s*"(.*)"', re.DOTALL)
# Short messages may well be the same in both languages ("Name"); long ones were left untranslated.
_MAX_SAME_WORDS = 3


class Catalogue(NamedTuple):
    """One catalogue's bytes; ``name`` says where they come from."""

    name: str
    data: bytes
    is_compiled: bool


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
        for message in _messages(catalogue):
            result = pair_of_message(message)
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
        InputError: if there is none, or as :func:`~fairseq_ext.corpora.archives.read_members`.
    """
    if path.suffix in _SUFFIXES and not path.is_dir():
        return [Catalogue(str(path), read_file(path), path.suffix == ".mo")]
    code = re.escape(target_lang)
    found = read_members(path, re.compile(rf"(?:.*/)?(?:{code}/LC_MESSAGES/[^/]+|{code})\.(?:po|mo)"))
    names = sorted(name for name in found if name.endswith(".po") or f"{name[:-3]}.po" not in found)
    if not names:
        raise InputError(
            f"{path}: holds no gettext catalogue of {target_lang!r} "
            f"({target_lang}/LC_MESSAGES/NAME.po or {target_lang}.po); choose another package or language"
        )
    return [Catalogue(f"{path}/{shown(name)}", found[name], name.endswith(".mo")) for name in names]


def pair_of_message(message: Message) -> Pair | str:
    """Return a message's cleaned pair, or in one word why it is left out."""
    for reason, applies in (
        ("obsolete", message.is_obsolete),
        ("fuzzy", message.is_fuzzy),
        ("plural", message.is_plural),
        ("untranslated", not message.translation),
    ):
        if applies:
            return reason
    english = _english_text(message)
    if english is None:
        return "key without text"
    pair = Pair(*strip_accelerators(clean_message(english), clean_message(message.translation)))
    if not has_letters(pair.source) or not has_letters(pair.target):
        return "no letters"
    if pair.source == pair.target and len(pair.source.split()) > _MAX_SAME_WORDS:
        return "untranslated"
    return pair


def _english_text(message: Message) -> str | None:
    default = _DEFAULT_TEXT.search(message.comment)
    if default and default.group(1).strip():
        return default.group(1).replace(r"\n", "\n").replace(r"\"", '"')
    return None if is_message_key(message.text) else message.text


def _messages(catalogue: Catalogue) -> Iterator[Message]:
    read = read_compiled if catalogue.is_compiled else read_source
    try:
        yield from read(catalogue.data)
    except EOFError as error:
        raise damage(catalogue.name, error) from None
    except (ValueError, LookupError) as error:
        raise InputError(f"{catalogue.name}: cannot be read as a gettext catalogue ({shown(str(error))})") from None
