"""Reading parallel text: two UTF-8 files, line by line translations of each other."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fairseq_ext.domains.names import check_domain_names
from fairseq_ext.errors import InputError


class Pair(NamedTuple):
    """A sentence and its translation, white space collapsed to single spaces."""

    source: str
    target: str


def find_domains(folder: Path, source_lang: str, target_lang: str) -> list[str]:
    """Return the sorted domains of a folder of ``DOMAIN.LANG`` files.

    Raises:
        InputError: if the folder holds no such pair of files or one side of a pair is missing.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: not found; give a folder with DOMAIN.{source_lang}, DOMAIN.{target_lang}")
    sides = {lang: {path.stem for path in folder.glob(f"*.{lang}")} for lang in (source_lang, target_lang)}
    for one, other in ((source_lang, target_lang), (target_lang, source_lang)):
        for name in sorted(sides[one] - sides[other]):
            raise InputError(f"{folder / name}.{one}: its other side {name}.{other} is missing")
    if not sides[source_lang]:
        raise InputError(f"{folder}: holds no files named DOMAIN.{source_lang} and DOMAIN.{target_lang}")
    return check_domain_names(sorted(sides[source_lang]), str(folder))


def read_lines(path: Path) -> list[str]:
    r"""Read a UTF-8 file's lines, which end at ``\n`` and nowhere else.

    Python's text mode also ends lines at a lone carriage return, and ``splitlines`` at U+2028 and six
    more; real corpora hold these inside sentences, and the two sides would slip against each other.

    Raises:
        InputError: if the file is missing or empty, or has a line that is not UTF-8 (naming it).
    """
    if not path.is_file():
        raise InputError(f"{path}: not found")
    data = path.read_bytes()
    if not data.strip():
        raise InputError(f"{path}: is empty")
    raw_lines = data.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n")
    return [_decode(line, path, number) for number, line in enumerate(raw_lines, start=1)]


def read_parallel(source_path: Path, target_path: Path) -> list[Pair]:
    """Read the two sides of a corpus; pairs with an empty side are dropped and counted on stderr.

    Raises:
        InputError: as :func:`read_lines`; also if the files differ in length or no pair is left.
    """
    sources, targets = read_lines(source_path), read_lines(target_path)
    if len(sources) != len(targets):
        shorter = min(len(sources), len(targets))
        short, long = (source_path, target_path) if len(sources) == shorter else (target_path, source_path)
        raise InputError(
            f"{long}, line {shorter + 1}: has no counterpart in {short}, which ends after line {shorter}; "
            "line N of one file must translate line N of the other"
        )
    pairs = [Pair(collapse(one), collapse(other)) for one, other in zip(sources, targets, strict=True)]
    kept = [pair for pair in pairs if pair.source and pair.target]
    if len(kept) < len(pairs):
        dropped = len(pairs) - len(kept)
        print(f"{source_path}: {dropped} of {len(pairs)} pairs have an empty side, dropped", file=sys.stderr)
    if not kept:
        raise InputError(f"{source_path}, line 1: in no line both sides have text")
    return kept


def collapse(text: str) -> str:
    """Collapse white space, Unicode's line separators included, to single spaces."""
    return " ".join(text.split())


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines as UTF-8, each ended by a line feed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def _decode(line: bytes, path: Path, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: byte {error.start + 1} is not UTF-8; convert the file to UTF-8"
        ) from None
