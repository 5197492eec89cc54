"""Language codes, as used in file names and fairseq's split names, and properties of languages' writing systems."""

from __future__ import annotations

import re

from fairseq_ext.base.errors import InputError

# Codes as they occur in corpora: pl, pt_BR, zh-Hans, sr@latin, eng_Latn.
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9]{0,15}(?:[-_@][A-Za-z0-9]{1,16}){0,3}")
_CHINESE = frozenset({"yue", "zh"})
_WITHOUT_SPACES = _CHINESE | {"bo", "dz", "ja", "km", "lo", "my", "th"}
# ISO 639-2's codes, and the two letters of ISO 639-1, of languages that have both.
_TWO_LETTERS = dict(
    re.findall(
        r"(\w{3}) (\w\w)",
        """
afr af alb sq sqi sq amh am ara ar arm hy hye hy aze az baq eu eus eu bel be ben bn bos bs bul bg bur my mya my cat ca
ces cs cze cs chi zh zho zh cmn zh cym cy wel cy dan da deu de ger de dut nl nld nl ell el gre el eng en epo eo est et
fao fo fas fa per fa fin fi fra fr fre fr fry fy geo ka kat ka gla gd gle ga glg gl guj gu hau ha heb he hin hi hrv hr
hun hu ice is isl is ibo ig ind id ita it jav jv jpn ja kan kn kaz kk khm km kir ky kor ko kur ku lao lo lat la lav lv
lit lt ltz lb mac mk mkd mk mal ml mao mi mri mi mar mr may ms msa ms mlg mg mlt mt mon mn nep ne nno nn nob nb nor no
oci oc pan pa pol pl por pt pus ps ron ro rum ro rus ru sin si slk sk slo sk slv sl som so spa es srp sr sun su swa sw
swe sv tam ta tel te tgk tg tgl tl tha th tib bo bod bo tur tr uig ug ukr uk urd ur uzb uz vie vi xho xh yid yi yor yo
zul zu dzo dz""",
    )
)


def check_language(code: str, where: str) -> None:
    """Check that a text has the form of a language code."""
    if _CODE.fullmatch(code) is None:
        raise InputError(f"{where}: {code!r} is not a language code; give one such as pl, pt_BR or zh-Hans")


def base_language(code: str) -> str:
    """Return the language of a code, with two letters if there are: ``pt`` for ``pt_BR``, ``en`` for ``eng_Latn``."""
    language = re.split("[-_@]", code)[0].lower()
    return _TWO_LETTERS.get(language, language)


def is_same_language(code: str, other: str) -> bool:
    """Return whether two codes are of one language: ``de``, ``DE-at``, ``de_DE.UTF-8`` and ``deu`` are."""
    one, two = (base_language(each.partition(".")[0]) for each in (code, other))
    return one == two


def has_spaces(code: str) -> bool:
    """Return whether a language separates words by spaces, so that counting words is meaningful."""
    return base_language(code) not in _WITHOUT_SPACES


def is_chinese(code: str) -> bool:
    """Return whether a code is of a Chinese language written in Han characters."""
    return base_language(code) in _CHINESE
