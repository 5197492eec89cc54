"""HTML: the text between tags is translated, and ``lang`` of the page is the target's. Attributes stay as they are."""

from __future__ import annotations

from collections.abc import Iterator

from fairseq_ext.documents.document import Edit, Filling, Parts
from fairseq_ext.documents.markup import attribute, name_of, with_attribute
from fairseq_ext.documents.pieces import MARKUP, cut, split


def read_html(chunks: Iterator[str], filling: Filling) -> Parts:
    """Yield the parts of a document."""
    for part, is_text in cut(MARKUP, "".join(chunks)):
        pieces = split(part, markup=True) if is_text else None
        if pieces and pieces.texts:
            yield Edit(part, (pieces,), "".join)
        elif name_of(part).lower() == "html" and attribute(part, "lang") is not None:
            yield with_attribute(part, "lang", filling.languages[1])
        else:
            yield part
