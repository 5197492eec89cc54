"""Read the lexical shortlist of a Marian model (``lex.*.bin``).

The file is little-endian: six uint64 (a mark, a checksum, the number of most frequent target words, the number of
target words by source word, the number of offsets, that of words), the offsets in uint64, one more than source words,
and the target words of all source words in uint32.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.translation_vocabulary import Side
from fairseq_ext.text.lexicons import Lexicon

_MARK = 0xF11A48D5013417F5
_HEADER = 6
_REMEDY = "copy or download the file again, or remove it to import the model without a shortlist"


def read_shortlist(data: bytes, path: Path, source: Side, target: Side) -> Lexicon:
    """Return the lexicon of a shortlist with these bytes, which were read from ``path``, in fairseq's numbers."""
    header = np.frombuffer(data, "<u8", min(_HEADER, len(data) // 8)).tolist()
    if len(header) < _HEADER or header[0] != _MARK:
        raise InputError(f"{path}: is not a shortlist of Marian; {_REMEDY}")
    frequent, offsets, words = header[2], header[4], header[5]
    needed = 8 * (_HEADER + offsets) + 4 * words
    if needed != len(data):
        raise InputError(f"{path}: has {len(data)} bytes, but its header says {needed}; {_REMEDY}")
    starts = np.frombuffer(data, "<u8", offsets, 8 * _HEADER).astype(np.int64)
    targets = np.frombuffer(data, "<u4", words, 8 * (_HEADER + offsets))
    sizes = len(source.symbols), len(target.symbols)
    if offsets != sizes[0] + 1 or frequent > sizes[1] or (words and int(targets.max()) >= sizes[1]):
        raise InputError(f"{path}: does not fit the vocabularies of {sizes[0]} and {sizes[1]} symbols; {_REMEDY}")
    if starts[0] != 0 or starts[-1] != words or (starts[1:] < starts[:-1]).any():
        raise InputError(f"{path}: its offsets are not ascending; {_REMEDY}")
    ours = [_numbers(side) for side in (source, target)]
    sources = np.repeat(np.arange(sizes[0]), np.diff(starts))
    return Lexicon.of_links(ours[0][sources], ours[1][targets], ours[1][:frequent])


def _numbers(side: Side) -> np.ndarray:
    """Return fairseq's number of each of the model's symbols."""
    order = side.order()
    numbers = np.zeros(len(side.symbols), np.int64)
    for ours, theirs in enumerate(order):
        if theirs is not None:
            numbers[theirs] = ours
    return numbers
