"""Plain sentences out of user-interface messages: no markup, no keyboard accelerators, one line.

Placeholders (``%s``, ``%(name)s``, ``{name}``, ``${name}``) stay, as a translator must keep them.
"""

from __future__ import annotations

import html
import re

from fairseq_ext.corpora.text_files import collapse

# Only tags HTML knows: <file> in a command's synopsis is text.
_BREAKING_TAGS = "blockquote|br|dd|div|dl|dt|h[1-6]|hr|li|ol|option|p|pre|table|tbody|td|th|thead|tr|ul"
_COMMENT = re.compile("<!--.*?-->", re.DOTALL)
_INLINE_TAGS = (
    "a|abbr|b|big|button|cite|code|em|font|i|img|input|kbd|label|mark|q|s|samp|small|span|strong|sub|sup|tt|u|var"
)
_BREAKING = re.compile(rf"</?(?:{_BREAKING_TAGS})(?:\s[^<>]*)?/?>", re.IGNORECASE)
_INLINE = re.compile(rf"</?(?:{_INLINE_TAGS})(?:\s[^<>]*)?/?>", re.IGNORECASE)
# html.unescape would also turn the accelerator in "&notify" into "¬ify": entities need their semicolon.
# No character has a number of more than seven digits, and Python refuses those of thousands.
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]*+);", re.IGNORECASE | re.ASCII)
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff\x00-\x08\x0e-\x1b\x7f]")
# Possessive, and an address from the start of its word, since a message may be one word of any length.
_PLACEHOLDER = re.compile(
    r"(%\(\w++\)[-#0+]*+\d*+(?:\.\d++)?[a-zA-Z]|%[-#0+]*+\d*+(?:\.\d++)?[sdifgexXcru%]|\$?\{[^{}]*+\}"
    r"|\b\w++://\S++)"
)
_KEY = re.compile(r"[a-z][a-z0-9]*(?:_[A-Za-z0-9]+)+")


def clean_message(text: str) -> str:
    """Remove tags, resolve entities, collapse white space and line breaks."""
    text = _BREAKING.sub(" ", _COMMENT.sub("", text))
    text = _INLINE.sub("", text)
    text = _ENTITY.sub(lambda match: html.unescape(match.group()), text)
    return collapse(_INVISIBLE.sub("", text))


def strip_accelerators(source: str, target: str) -> tuple[str, str]:
    """Remove the marks of keyboard accelerators: ``&File``, ``_File``, ``Sa_ve``, ``Datei (&F)``.

    The two sides are judged together, because ``&`` and ``_`` inside a word also occur in names
    (``R&D``, ``log_level``): these are the same in both languages, accelerators mostly are not.
    """
    for mark in "&_":
        if mark not in source and mark not in target:
            continue
        in_brackets = re.compile(rf"(?<!\s)\s*+\({mark}\w\)")
        source, target = in_brackets.sub("", source), in_brackets.sub("", target)
        leading = re.compile(rf"(?<![\w{mark}]){mark}(?=[^\W_])")
        inner = re.compile(rf"(?<=[^\W_]){mark}(?=[^\W\d_A-Z])")
        outside = [" ".join(_PLACEHOLDER.split(text)[::2]) for text in (source, target)]
        inner_words = [{word for word in text.split() if inner.search(word)} for text in outside]
        both_marked = all(words or leading.search(text) for words, text in zip(inner_words, outside, strict=True))
        source, target = (_substitute(leading, text) for text in (source, target))
        if both_marked and not inner_words[0] & inner_words[1] and max(map(len, inner_words)) == 1:
            source, target = (_substitute(inner, text) for text in (source, target))
    return source, target


def has_letters(text: str) -> bool:
    """Whether anything but placeholders, digits and punctuation is there to translate."""
    return any(character.isalpha() for character in _PLACEHOLDER.sub("", text))


def is_message_key(text: str) -> bool:
    """Whether a message id is a program's key (``label_add_item``) instead of English."""
    return _KEY.fullmatch(text) is not None


def _substitute(pattern: re.Pattern[str], text: str) -> str:
    """Remove what matches outside of placeholders."""
    parts = _PLACEHOLDER.split(text)  # odd positions hold placeholders
    parts[::2] = [pattern.sub("", part) for part in parts[::2]]
    return "".join(parts)
