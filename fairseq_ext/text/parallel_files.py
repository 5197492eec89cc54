"""Pairs from line-based files: two parallel files, plain or in a Moses zip from OPUS, TSV, and JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.json_file import json_row
from fairseq_ext.text.files import open_binary, open_zip, read_chunks
from fairseq_ext.text.raw_text import canonical, canonical_lines, decode_lines, stream_canonical_lines
from fairseq_ext.text.text_files import Pair, zip_sides


def read_parallel_files(paths: tuple[Path, Path], policy: str, tally: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of two files, compressed or not, including pairs with an empty side."""
    source, target = (stream_canonical_lines(path, policy, tally) for path in paths)
    return _pairs(source, target, (str(paths[0]), str(paths[1])), tally)


def read_moses_zip(path: Path, langs: tuple[str, str], policy: str, tally: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of a zip with ``NAME.SRC`` and ``NAME.TGT``, decompressing as they are read."""
    stems = moses_stems(path, langs)
    if not stems:
        raise InputError(f"{path}: has no files NAME.{langs[0]} and NAME.{langs[1]}; choose another zip or language")
    with open_zip(path) as archive:
        for stem in stems:
            members = (f"{stem}.{langs[0]}", f"{stem}.{langs[1]}")
            with archive.open(members[0]) as source, archive.open(members[1]) as target:
                names = (f"{path}/{members[0]}", f"{path}/{members[1]}")
                one, other = (
                    canonical_lines(read_chunks(file, name), name, policy, tally)
                    for file, name in zip((source, target), names, strict=True)
                )
                yield from _pairs(one, other, names, tally)


def moses_stems(path: Path, langs: tuple[str, str]) -> list[str]:
    """Return the sorted names, without the language suffix, of a zip's files in both languages."""
    with open_zip(path) as archive:
        names = [name for name in archive.namelist() if not PurePosixPath(name).name.startswith(".")]
    sides = [{name.removesuffix(f".{lang}") for name in names if name.endswith(f".{lang}")} for lang in langs]
    # Without common names it may be a zip of catalogues among other files of a program.
    if not sides[0] & sides[1]:
        return []
    for side, lang in enumerate(langs):
        for stem in sorted(sides[side] - sides[1 - side]):
            raise InputError(f"{path}/{stem}.{lang}: its other side {stem}.{langs[1 - side]} is missing; add it")
    return sorted(sides[0])


def read_tsv(path: Path, langs: tuple[str, str], policy: str | None, tally: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of a file with two columns, source TAB target; quotes have no special meaning.

    A first line with the languages' codes, or ``source`` and ``target``, is a header.
    """

    def columns(line: str) -> tuple[str, str]:
        source, *rest = line.split("\t")
        if len(rest) != 1:
            raise ValueError(f"has {1 + len(rest)} columns; give two, source TAB target (cut -f selects columns)")
        return source, rest[0]

    headers = ("source", "target"), tuple(map(str.lower, langs))
    for number, pair in enumerate(_rows(path, columns, policy, tally)):
        if number == 0 and (pair.source.lower(), pair.target.lower()) in headers:
            tally["header_lines"] += 1
        else:
            yield pair


def read_jsonl(path: Path, langs: tuple[str, str], policy: str | None, tally: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of JSON lines ``{"en": …, "pl": …}``, which may be nested under the key ``translation``."""

    def texts(line: str) -> tuple[str, str]:
        row = json_row(line)
        row = row.get("translation", row)
        source, target = (row.get(lang) if isinstance(row, dict) else None for lang in langs)
        if not isinstance(source, str) or not isinstance(target, str):
            raise ValueError(f"has no texts under the keys {langs[0]!r} and {langs[1]!r}; add them")
        return source, target

    return _rows(path, texts, policy, tally)


def _rows(
    path: Path, split: Callable[[str], tuple[str, str]], policy: str | None, tally: Counter[str]
) -> Iterator[Pair]:
    """Yield the pairs of a file with one pair per line; ``split`` raises ValueError for bad lines."""
    number = 0
    with open_binary(path, "rb") as file:
        for number, line in enumerate(decode_lines(read_chunks(file, str(path)), str(path), policy, tally), start=1):
            if line is None:
                tally["bad_utf8_dropped"] += 1
                continue
            try:
                source, target = split(line)
            except ValueError as error:
                raise InputError(f"{path}, line {number}: {error}") from None
            yield Pair(canonical(source, tally), canonical(target, tally))
    if not number:
        raise InputError(f"{path}: is empty; give a file with text")
    tally["lines"] += number


def _pairs(
    source: Iterator[str | None], target: Iterator[str | None], names: tuple[str, str], tally: Counter[str]
) -> Iterator[Pair]:
    lines = 0
    for one, other in zip_sides(source, target, names):
        lines += 1
        if one is None or other is None:
            tally["bad_utf8_dropped"] += 1
        else:
            yield Pair(one, other)
    if not lines:
        raise InputError(f"{names[0]}: is empty; give a file with text")
    tally["lines"] += lines
