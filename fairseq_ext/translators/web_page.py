"""HTML: the text of elements is translated, and ``lang`` of the page is the target's. Attributes stay as they are."""

from __future__ import annotations

from collections.abc import Iterator

from fairseq_ext.runtime.markup import attribute, name_of, with_attribute
from fairseq_ext.runtime.pieces import runs, split
from fairseq_ext.translators.document import Edit, Filling, Parts


def read_html(chunks: Iterator[str], filling: Filling) -> Parts:
    """Yield the parts of a document."""
    for run, end in runs("".join(chunks)):
        text = "".join(part for part, _ in run)
        pieces = split(text, markup=True)
        yield Edit(text, (pieces,), "".join) if pieces.texts else text
        is_page = name_of(end).lower() == "html" and attribute(end, "lang") is not None
        yield with_attribute(end, "lang", filling.languages[1]) if is_page else end
