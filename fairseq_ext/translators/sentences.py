"""A text as sentences, where it is too long to be translated as one."""

from __future__ import annotations

import re

# A full stop and its like with the quotation marks and brackets that follow it, then a blank; or one that needs none.
_END = re.compile(r"""[.!?…]+["'”’»)\]]*\s+|[。！？]+["'”’」』）]*\s*""")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text; joined by blanks they are the text again, but for scripts that write none."""
    sentences, start = [], 0
    for end in _END.finditer(text):
        sentences.append(text[start : end.end()].strip())
        start = end.end()
    return [sentence for sentence in (*sentences, text[start:].strip()) if sentence]
