"""The filter for letters and their scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated

import numpy as np
import regex
from pydantic import Field

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.sections import Number, Several
from fairseq_ext.text.cleaning.agreement import strip_markup
from fairseq_ext.text.cleaning.filters import SIDES, Batch, Filter
from fairseq_ext.text.languages import base_language

# Languages by the Unicode name of their script; a language with several scripts is listed for each of them.
_LANGUAGES_OF = {
    "Latin": "af an ast az br bs ca ceb co crh cs csb cy da de dsb en eo es et eu fi fo fr fur fy ga gd gl gn gv ha "
    "haw hr hsb ht hu ia id ig io is it jv kab kk ku kw la lb li ln lt lv mg mi ms mt nb nds nl nn no ny oc om pap pl "
    "pt qu rm ro rw sc scn se sh sk sl sm sn so sq sr st su sv sw szl tk tl tn tr ts uz ve vi vo wa wo xh yo zu",
    "Cyrillic": "ab av az ba be bg bs ce cu cv kk ky mk mn os ru sah sh sr tg tt udm uk uz",
    "Greek": "el",
    "Arabic": "ar ckb fa ks ku ms pnb ps sd ug ur",
    "Hebrew": "he iw yi",
    "Han": "ja ko yue zh",
    "Hiragana": "ja",
    "Katakana": "ja",
    "Bopomofo": "yue zh",
    "Hangul": "ko",
    "Devanagari": "bho hi kok ks mai mr ne sa sd",
    "Thai": "th",
    "Georgian": "ka",
    "Armenian": "hy",
    "Bengali": "as bn",
    "Gurmukhi": "pa",
    "Gujarati": "gu",
    "Oriya": "or",
    "Tamil": "ta",
    "Telugu": "te",
    "Kannada": "kn",
    "Malayalam": "ml",
    "Sinhala": "si",
    "Lao": "lo",
    "Khmer": "km",
    "Myanmar": "my",
    "Tibetan": "bo dz",
    "Ethiopic": "am ti",
    "Thaana": "dv",
    "Mongolian": "mn",
}


class Characters(Filter):
    """Drops pairs with a side that has few letters, or few letters of its language's scripts."""

    min_share: Annotated[Number, Field(ge=0, le=1)] = 0.3
    """Minimum share of a side's letters that belong to its language's scripts. Text in another script has almost none,
    but a sentence of a manual with many Latin names and commands may have only half. Sides below the minimum are
    counted again without addresses, tags and placeholders, which are Latin in all languages."""
    min_letters: Annotated[Number, Field(ge=0, le=1)] = 0.3
    """Minimum share of letters among the characters of a side, without spaces. By default ``%1 (Disc %2)`` and
    ``It is 7:30.`` pass, but not rulers, tables of numbers and ``%1$d%%``."""
    source_scripts: Several[str] | None = None
    """Unicode names of the source language's scripts, such as ``[Cyrillic, Latin]``; known for most languages."""
    target_scripts: Several[str] | None = None
    """Unicode names of the target language's scripts."""

    def check(self, langs: tuple[str, str]) -> None:
        for side, scripts in zip(SIDES, self._scripts(langs), strict=True):
            for script in scripts:
                if not _is_script(script):
                    raise InputError(
                        f"characters: {side}_scripts: {script!r} is not a Unicode script; give names such as Latin"
                    )

    def side_reasons(self, batch: Batch, side: int) -> Iterator[str | None]:
        texts, scripts = batch.texts(side), self._scripts(batch.langs)[side]
        expected, letters, characters = count_letters(texts, scripts).T
        of_letters, of_scripts = _divide(letters, characters), _divide(expected, letters)
        suspects = np.flatnonzero(of_scripts < self.min_share).tolist()
        expected, letters, _ = count_letters([strip_markup(texts[row]) for row in suspects], scripts).T
        of_scripts[suspects] = _divide(expected, letters)
        for share, script_share in zip(of_letters.tolist(), of_scripts.tolist(), strict=True):
            if script_share < self.min_share:
                yield f"{_percent(script_share)} of the {SIDES[side]}'s letters belong to its scripts"
            else:
                yield (
                    f"{_percent(share)} of the {SIDES[side]}'s characters are letters"
                    if share < self.min_letters
                    else None
                )

    def _scripts(self, langs: tuple[str, str]) -> list[tuple[str, ...]]:
        given = (self.source_scripts, self.target_scripts)
        return [tuple(given[side] or scripts_of(langs[side], f"{SIDES[side]}_scripts")) for side in (0, 1)]


def _divide(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return shares, with 0 / 0 = 1."""
    return np.where(whole > 0, part / np.maximum(whole, 1), 1.0)


def _percent(share: float) -> str:
    return f"{int(100 * share + 1e-9)}%"


_IGNORED, _OTHER, _FOREIGN, _EXPECTED = range(4)


def count_letters(texts: Sequence[str], scripts: tuple[str, ...]) -> np.ndarray:
    """Count the letters of the given scripts, all letters, and all characters except spaces in each of N texts.

    Letters common to all scripts, like ª or the Japanese ー, count as letters of the given scripts. Vowel marks count
    as letters; combining accents are not counted at all.

    Shape:
        result: N×3
    """
    if not texts:
        return np.zeros((0, 3), dtype=np.int64)
    # Line feeds ensure that no text is empty, as reduceat requires.
    joined = "".join([f"{text}\n" for text in texts])
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    kinds = _kind_of_character(scripts)[codes]
    sizes = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    sums = [np.add.reduceat(kinds >= kind, starts, dtype=np.int64) for kind in (_EXPECTED, _FOREIGN, _OTHER)]
    return np.stack(sums, axis=1)


def _is_script(name: str) -> bool:
    try:
        return name.isidentifier() and bool(regex.compile(rf"\p{{Script={name}}}"))
    except (regex.error, OverflowError):  # it parses "inf" as a number
        return False


@lru_cache(maxsize=8)
def _kind_of_character(scripts: tuple[str, ...]) -> np.ndarray:
    """Return the kind of each Unicode code point. Shape: 0x110000"""
    every = "".join(map(chr, range(0x110000)))
    kinds = np.full(len(every), _OTHER, dtype=np.uint8)
    letters = r"[\p{L}[\p{M}--\p{Script=Inherited}]]"
    these = "".join(rf"\p{{Script={script}}}" for script in scripts)
    patterns = {
        _IGNORED: r"[\s\p{Script=Inherited}]",
        _FOREIGN: letters,
        _EXPECTED: rf"[{letters}&&[{these}\p{{Script=Common}}]]",
    }
    for kind, pattern in patterns.items():
        for match in regex.finditer(f"{pattern}+", every, regex.VERSION1):
            kinds[match.start() : match.end()] = kind
    return kinds


def scripts_of(code: str, option: str) -> tuple[str, ...]:
    """Return the Unicode names of a language's scripts; for unknown languages, the error suggests ``option``."""
    language = base_language(code)
    scripts = tuple(script for script, languages in _LANGUAGES_OF.items() if language in languages.split())
    if not scripts:
        raise InputError(f"characters: the scripts of {code!r} are unknown; set {option}, e.g. to [Latin]")
    return scripts
