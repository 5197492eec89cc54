"""Normalisation of characters and punctuation.

Klimaszewski et al. (2023) normalise punctuation with the Moses script. This module applies the substitutions of
sacremoses, a port of that script, in the same order; docs/data.md describes them. They would also treat a no-break
space between digits as a decimal separator, but here no number changes: lines come with white space collapsed, so
that no-break spaces are plain spaces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from fairseq_ext.base.sections import Section
from fairseq_ext.text.folded_text import normal_form
from fairseq_ext.text.languages import base_language
from fairseq_ext.text.text_files import Pair, collapse

_MAX_CHARACTERS = 10_000

# Every line that a substitution of sacremoses can change, with white space collapsed, has one of these characters. Most
# lines of a corpus have none and are skipped.
_TOUCHED = re.compile("[`´„“”‘’‚–—…«»'\"()%:;]")


class Normalise(Section):
    """Options of normalisation."""

    unicode: Literal["NFC", "NFKC"] | None = "NFC"
    """Unicode normal form, or null for none. ``NFC`` (the default) only composes letters with their accents; ``NFKC``
    also replaces ligatures, full-width letters, superscripts (``x²`` becomes ``x2``) etc."""
    punctuation: Literal["moses"] | None = "moses"
    """``moses`` (the default) or null for none. Lines of more than 10,000 characters are skipped: they are not
    sentences, and some substitutions take quadratic time."""


def normalise_lines(lines: Sequence[str], lang: str, options: Normalise) -> list[str]:
    """Normalise lines with collapsed white space in one language: first characters, then punctuation.

    In rare cases, normalising again changes a line again, if a substitution produces a match of an earlier one.
    """
    if options.unicode:
        lines = [_compose(options.unicode, line) for line in lines]
    if options.punctuation:
        substitutions = _substitutions(base_language(lang))
        lines = [
            _substitute(substitutions, line) if len(line) <= _MAX_CHARACTERS and _TOUCHED.search(line) else line
            for line in lines
        ]
    return list(lines)


def normalise_pairs(pairs: Sequence[Pair], langs: tuple[str, str], options: Normalise | None) -> Sequence[Pair]:
    """Normalise both sides, or return the pairs unchanged if ``options`` is None."""
    if options is None:
        return pairs
    sides = [normalise_lines([pair[side] for pair in pairs], lang, options) for side, lang in enumerate(langs)]
    return [Pair(*pair) for pair in zip(*sides, strict=True)]


def _compose(form: Literal["NFC", "NFKC"], line: str) -> str:
    composed = normal_form(form, line)
    # NFKC turns a lone accent into a space and a combining accent.
    return line if composed == line else collapse(composed)


@lru_cache
def _substitutions(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Return the substitutions of sacremoses for a language."""
    from sacremoses import MosesPunctNormalizer  # takes a third of a second

    return [(re.compile(old), new) for old, new in MosesPunctNormalizer(language).substitutions]


def _substitute(substitutions: Sequence[tuple[re.Pattern[str], str]], line: str) -> str:
    for pattern, replacement in substitutions:
        line = pattern.sub(replacement, line)
    return collapse(line)
