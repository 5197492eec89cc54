"""Folding of sentences that look the same, to detect repetitions; and Unicode normal forms."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

import regex

from fairseq_ext.text.text_files import collapse

# Invisible characters: control characters other than white space, and Unicode's Default_Ignorable_Code_Point (soft
# hyphens, joiners, variation selectors, fillers, tags) with the neighbouring annotation marks. SentencePiece drops
# only some of them.
_DROPPED = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200d\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Characters that SentencePiece treats as spaces: zero-width spaces etc., its own marker, the replacement character.
_SPACES = "\u061c\u200b\u200c\u200e\u200f\u2581\ufeff\ufffd"
_UNSEEN = re.compile(f"[{_DROPPED}{_SPACES}]")
# Fully matches a text that folds to the empty string.
BLANK = re.compile(rf"[\s{_DROPPED}{_SPACES}]*+")
_MAX_MARKS = 1000
_MANY_MARKS = regex.compile(rf"\p{{M}}{{{_MAX_MARKS}}}")

Form = Literal["NFC", "NFKC"]


def fold(text: str) -> str:
    """Map sentences that differ only in compatibility form, case, white space or invisible characters to one form.

    Texts that are equal under SentencePiece's default rules (``nmt_nfkc``) fold to the same text if Python's Unicode
    version has their characters. Zero-width spaces separate words for this reason.
    """
    if text.isascii() and text.isprintable():
        return collapse(text.lower())
    text = _UNSEEN.sub(lambda match: " " if match[0] in _SPACES else "", text)
    return collapse(normal_form("NFKC", normal_form("NFKC", text).casefold()))


def normal_form(form: Form, text: str) -> str:
    """Normalise a text to a Unicode normal form, unless it has a thousand combining marks in a row.

    Real text never has, and Python sorts consecutive marks in quadratic time.
    """
    if len(text) > _MAX_MARKS and _MANY_MARKS.search(text):
        return text
    return unicodedata.normalize(form, text)
