"""Subtitles in SubRip (``.srt``) and WebVTT (``.vtt``): the lines below those of times are translated."""

from __future__ import annotations

import re
from pathlib import Path

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.tags import PLAIN
from fairseq_ext.translators.document import Filling, Parts, edit
from fairseq_ext.translators.markup_documents import read_text

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
