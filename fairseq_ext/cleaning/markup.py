"""What programs read in a text, and a translation keeps as it is: addresses, elements, placeholders."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

# Whether anything here, or a digit, may occur: most sentences end here, so this is to be quick.
MAYBE = re.compile(r"[\d<%{$&@]|//|www\.")
_ADDRESS = re.compile(
    r"""(?:https?|ftp)://[!#-;=?-~]+        # in ASCII, as Japanese text may go on without a space
    | (?<![\w.@])www\.[!#-;=?-~]+
    | (?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)+
    """,
    re.ASCII | re.VERBOSE | re.IGNORECASE,
)
_ADDRESS_PART = re.compile(r"[^/.]*[/.]?")
_AFTER_ADDRESS = ".,;:!?)]}'\"*"
_TAG = re.compile(r"<(/?)([a-z][\w:.-]*+)([^<>]*+)>", re.ASCII | re.IGNORECASE)
_ATTRIBUTE = re.compile(r"=\s*[\"']")
_ESCAPED = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'))
_PLACEHOLDER = re.compile(
    r"""%(?:\d++\$|\(\w++\))[-#0+]*+\d*+(?:\.\d++)?(?:hh?|ll?|[jtz])?[a-z@]     # %1$s, %(name)s
    | (?<![\d%])%[-#0+]*+\d*+(?:\.\d++)?(?:hh?|ll?|[jtz])?[sdifgeuxcro@](?![a-z])    # %s, %5.2f, but no 100%d
    | (?<![\w^\\])\$?\{[ ]?[\w.]*+[ ]?(?:[:!][^{}\s]*+)?\}    # {}, {0}, {{name}}, ${name}, but no e^{x}, \sqrt{x}
    | (?<![\w$])\$[a-z_]\w*+(?!\$)    # $name, but no $x$
    """,
    re.ASCII | re.VERBOSE | re.IGNORECASE,
)


def addresses(text: str, langs: Collection[str] = ()) -> set[str]:
    """Web and mail addresses, in lower case.

    Args:
        text: any.
        langs: codes that are left out where they are a part of their own, since a page's address differs by
            them in two languages: ``en.example.org/a`` and ``example.org/pl/a`` are equal then.
    """
    if "@" not in text and "//" not in text and "www." not in text:
        return set()
    found = (match.lower().rstrip(_AFTER_ADDRESS) for match in _ADDRESS.findall(text))
    # "https://" alone is none.
    return {_without(langs, address) for address in found if not address.endswith("//")}


def _without(langs: Collection[str], address: str) -> str:
    parts = _ADDRESS_PART.findall(address)
    return "".join(part for part in parts if part.rstrip("/.") not in langs).rstrip("/.")


def elements(text: str) -> Counter[str]:
    """Names of HTML or XML tags: closing ones (``/b``) and those with attributes (``a``).

    ``<name>`` alone may as well be a blank to fill in, which is translated: an element shows by its other
    tag. Attributes are not compared: some hold text.
    """
    for escaped, character in _ESCAPED:
        text = text.replace(escaped, character)
    tags = _TAG.findall(text) if "<" in text else ()
    return Counter(slash + name.lower() for slash, name, rest in tags if slash or _ATTRIBUTE.search(rest))


def placeholders(text: str) -> Counter[str]:
    """Placeholders of printf, Python, Java, gettext and shells."""
    return Counter(_PLACEHOLDER.findall(text)) if _may_have_placeholders(text) else Counter()


def strip_placeholders(text: str) -> str:
    """The text without placeholders."""
    return _PLACEHOLDER.sub(" ", text) if _may_have_placeholders(text) else text


def strip_markup(text: str) -> str:
    """The text without addresses, tags and placeholders."""
    return strip_placeholders(_TAG.sub(" ", _ADDRESS.sub(" ", text)))


def _may_have_placeholders(text: str) -> bool:
    return "%" in text or "{" in text or "$" in text
