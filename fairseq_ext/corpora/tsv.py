"""Pairs from a file of two columns, source TAB target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fairseq_ext.corpora.compressed import open_binary, read_chunks
from fairseq_ext.corpora.raw_text import canonical, decode_lines
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError


def read_tsv(path: Path, policy: str, tally: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of a .tsv, compressed or not; quotes have no meaning in it.

    Raises:
        InputError: as :func:`~fairseq_ext.corpora.raw_text.stream_canonical_lines`; also if a line has not two columns.
    """
    number = 0
    with open_binary(path, "rb") as file:
        lines = decode_lines(read_chunks(file, str(path)), str(path), policy, tally)
        for number, line in enumerate(lines, start=1):
            if line is None:
                tally["bad_utf8_dropped"] += 1
                continue
            columns = line.split("\t")
            if len(columns) != 2:
                raise InputError(
                    f"{path}, line {number}: has {len(columns)} columns; give source TAB target and nothing else "
                    "(cut -f keeps the two)"
                )
            yield Pair(canonical(columns[0], tally), canonical(columns[1], tally))
    if not number:
        raise InputError(f"{path}: is empty")
    tally["lines"] += number
