"""Pairs from two files whose lines translate each other (Moses style), loose or in a zip as OPUS gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path, PurePosixPath

from fairseq_ext.corpora.archives import open_zip
from fairseq_ext.corpora.compressed import read_chunks, shown
from fairseq_ext.corpora.raw_text import canonical_lines, stream_canonical_lines
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError

_END = "\n"  # No line can be one.


def read_parallel_files(paths: tuple[Path, Path], policy: str, tally: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of two files, compressed or not; those with an empty side too.

    Raises:
        InputError: as :func:`~fairseq_ext.corpora.raw_text.stream_canonical_lines`; also if the files differ in length.
    """
    source, target = (stream_canonical_lines(path, policy, tally) for path in paths)
    return _pairs(source, target, (str(paths[0]), str(paths[1])), tally)


def read_moses_zip(path: Path, langs: tuple[str, str], policy: str, tally: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of a zip that holds ``NAME.SRC`` and ``NAME.TGT``, unpacked as they are read.

    Raises:
        InputError: as :func:`read_parallel_files`; also if the zip is damaged, holds no such files, or one without
            its other side.
    """
    stems = moses_stems(path, langs)
    if not stems:
        raise InputError(f"{path}: holds no files NAME.{langs[0]} and NAME.{langs[1]}; choose another zip or language")
    with open_zip(path) as archive:
        for stem in stems:
            members = (f"{stem}.{langs[0]}", f"{stem}.{langs[1]}")
            with archive.open(members[0]) as source, archive.open(members[1]) as target:
                names = (f"{path}/{shown(members[0])}", f"{path}/{shown(members[1])}")
                lines = [
                    canonical_lines(read_chunks(file, name), name, policy, tally)
                    for file, name in zip((source, target), names, strict=True)
                ]
                yield from _pairs(lines[0], lines[1], names, tally)


def moses_stems(path: Path, langs: tuple[str, str]) -> list[str]:
    """The names, sorted and without the language, of files that a zip holds in both languages.

    Raises:
        InputError: if it is no zip or a damaged one, or if beside such files there is one in one language only.
    """
    with open_zip(path) as archive:
        names = archive.namelist()
    visible = [name for name in names if not PurePosixPath(name).name.startswith(".")]
    sides = [{name.removesuffix(f".{lang}") for name in visible if name.endswith(f".{lang}")} for lang in langs]
    stems = sorted(sides[0] & sides[1])
    # With no stem it may be a zip of catalogues, with whatever else software has.
    for this in (0, 1) if stems else ():
        for stem in sorted(sides[this] - sides[1 - this]):
            name = shown(stem)
            raise InputError(f"{path}/{name}.{langs[this]}: its other side {name}.{langs[1 - this]} is missing")
    return stems


def _pairs(
    source: Iterator[str | None], target: Iterator[str | None], names: tuple[str, str], tally: Counter[str]
) -> Iterator[Pair]:
    number = 0
    for number, (one, other) in enumerate(zip_longest(source, target, fillvalue=_END), start=1):
        if one is _END or other is _END:
            short, long = names if one is _END else names[::-1]
            raise InputError(
                f"{long}, line {number}: has no counterpart in {short}, which ends after line {number - 1}; "
                "line N of one file must translate line N of the other"
            )
        if one is None or other is None:
            tally["bad_utf8_dropped"] += 1
        else:
            yield Pair(one, other)
    if not number:
        raise InputError(f"{names[0]}: is empty")
    tally["lines"] += number
