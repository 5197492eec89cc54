"""How languages are written: in which scripts."""

from __future__ import annotations

from fairseq_ext.corpora.languages import base_language
from fairseq_ext.inputs.errors import InputError

# Scripts by their Unicode names; a language written in several stands in each of their lines.
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


def scripts_of(code: str, option: str) -> tuple[str, ...]:
    """Unicode names of the scripts a language is written in.

    Args:
        code: the language.
        option: of the filter ``characters``, which names them where they are not known here.

    Raises:
        InputError: naming ``option``, if the language is not known.
    """
    language = base_language(code)
    scripts = tuple(script for script, languages in _LANGUAGES_OF.items() if language in languages.split())
    if not scripts:
        raise InputError(f"characters: the scripts of {code!r} are not known; give {option}, such as [Latin]")
    return scripts
