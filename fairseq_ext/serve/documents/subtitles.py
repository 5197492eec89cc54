"""Subtitles in SubRip (``.srt``) and WebVTT (``.vtt``): the lines below those of times are translated."""

from __future__ import annotations

import re
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.documents.document import Filling, Parts, edit
from fairseq_ext.serve.documents.markup_documents import read_text
from fairseq_ext.serve.runtime.tags import PLAIN

_CUE = re.compile(r"([^\r\n]*\d\s*-->\s*\d[^\r\n]*\r?\n)((?:[^\r\n]+(?:\r?\n|\Z))+)")
# A sentence goes on in the next line, unless another speaker begins.
_SPOKEN = PLAIN._replace(breaks=re.compile(r"\r?\n(?=[ \t]*[-–—])"))


def read_subtitles(path: Path, filling: Filling) -> Parts:
    """Yield the parts of a file of subtitles."""
    text, end = "".join(read_text(path)), 0
    for cue in _CUE.finditer(text):
        yield text[end : cue.start(2)]
        yield edit(cue[2], filling, _SPOKEN)
        end = cue.end()
    if not end:
        raise InputError("has no times of subtitles; give an .srt or .vtt file")
    yield text[end:]
