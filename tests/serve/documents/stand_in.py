"""Documents filled by a stand-in for a system, which writes capitals."""

import io
import re
from pathlib import Path

from fairseq_ext.serve.documents.document import Document, Filling
from fairseq_ext.serve.documents.formats import FORMATS, format_of
from fairseq_ext.serve.runtime.pieces import PRIVATE, keep
from fairseq_ext.serve.runtime.tags import cut


def shout(text: str) -> str:
    """A translation that keeps its marks, with what is between placeholders'."""
    parts = cut(re.compile(f"{keep('.*?')}|{PRIVATE}"), text)
    return "".join(part.upper() if is_text else part for part, is_text in parts)


def opened(path: Path, every: bool = False, target: str = "de") -> Document:
    return Document(path, FORMATS[format_of(path)], Filling(("en", target), "GAD", every))


def filled(path: Path, every: bool = False) -> bytes:
    file, found = io.BytesIO(), opened(path, every)
    found.write([shout(text) for text, _ in found.texts()], file)
    return file.getvalue()
