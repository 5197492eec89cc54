"""One spelling of characters and punctuation for all corpora.

Klimaszewski et al. (2023) normalise punctuation with Moses's script; sacremoses is its port, and its
list of substitutions is used here, in its order; docs/data.md says what they do. They would also take a
no-break space between digits for a decimal separator. Here no number changes, because lines come with
white space collapsed, where no-break spaces are plain ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from fairseq_ext.corpora.folded_text import normal_form
from fairseq_ext.corpora.languages import base_language
from fairseq_ext.corpora.text_files import collapse
from fairseq_ext.inputs.models import Section

_MAX_CHARACTERS = 10_000

# What every line has that a substitution of sacremoses can change, once white space is collapsed. The others, most of a
# corpus, are not looked at further.
_TOUCHED = re.compile("[`´„“”‘’‚–—…«»'\"()%:;]")


class Normalise(Section):
    """What is made alike."""

    unicode: Literal["NFC", "NFKC"] | None = "NFC"
    """Normal form of the characters, or null for none. ``NFC`` (the default) only composes letters with their
    accents; ``NFKC`` also replaces ligatures, full-width letters, superscripts (``x²`` becomes ``x2``) and the
    like."""
    punctuation: Literal["moses"] | None = "moses"
    """``moses`` (the default) or null for none. Lines of more than 10,000 characters keep theirs: they are no
    sentences, and some of the substitutions take time quadratic in the length."""


def normalise_lines(lines: Sequence[str], lang: str, options: Normalise) -> list[str]:
    """Normalise lines of one language, white space collapsed: the characters first, then the punctuation.

    Normalising twice can, seldom, change a line again: a later substitution may make what an earlier one looks for.
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


def _compose(form: Literal["NFC", "NFKC"], line: str) -> str:
    composed = normal_form(form, line)
    # NFKC makes a space and a combining accent of a lone accent.
    return line if composed == line else collapse(composed)


@lru_cache
def _substitutions(language: str) -> list[tuple[re.Pattern[str], str]]:
    """sacremoses' list for a language."""
    from sacremoses import MosesPunctNormalizer  # takes a third of a second

    return [(re.compile(old), new) for old, new in MosesPunctNormalizer(language).substitutions]


def _substitute(substitutions: Sequence[tuple[re.Pattern[str], str]], line: str) -> str:
    for pattern, replacement in substitutions:
        line = pattern.sub(replacement, line)
    return collapse(line)
