"""Lists of word translations, and what counts as a word in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.inputs.errors import InputError

# Words are compared by their first six letters, which brings most inflected forms together.
_STEM = re.compile(r"(\w{1,6})\w*")
_COLUMNS = (2, 3)


def stems(text: str) -> set[str]:
    """The different words of a text: runs of letters and digits, case folded, of which the first six count."""
    return set(_STEM.findall(text.casefold()))


def stems_in_order(text: str) -> list[str]:
    """The words of a text as :func:`stems` has them, in their order and as often as they occur."""
    return _STEM.findall(text.casefold())


@lru_cache(maxsize=2)
def load_word_list(path: str) -> dict[str, set[str]]:
    """Read a word list, once a process: of each source word its translations, cut to their first letters.

    Entries of several words are left out, since words are looked up one by one.

    Raises:
        InputError: if a line is not ``source<TAB>target`` (and a number), or no entry can be used.
    """
    translations: dict[str, set[str]] = {}
    for number, line in enumerate(read_lines(Path(path)), start=1):
        columns = line.split("\t")
        if len(columns) not in _COLUMNS or not all(column.strip() for column in columns):
            raise InputError(f"{path}, line {number}: expected source<TAB>target, got {line[:80]!r}")
        _check_probability(columns[2:], f"{path}, line {number}")
        source, target = stems(columns[0]), stems(columns[1])
        if len(source) == len(target) == 1:
            translations.setdefault(source.pop(), set()).update(target)
    if not translations:
        raise InputError(f"{path}: holds no entry of one word and its translation")
    return translations


@lru_cache(maxsize=2)
def known_targets(path: str) -> set[str]:
    """All translations in a word list."""
    return set().union(*load_word_list(path).values())


def _check_probability(columns: Sequence[str], where: str) -> None:
    for column in columns:
        try:
            is_valid = 0 <= float(column) <= 1
        except ValueError:
            is_valid = False
        if not is_valid:
            raise InputError(f"{where}: {column.strip()!r} is no probability; give 0 to 1, or two columns only")
