"""The forms in which a corpus is given, and reading each of them as a stream of pairs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

from fairseq_ext.corpora import translation_memories
from fairseq_ext.corpora.downloads import check_opus, fetch_opus, fetch_packages, is_opus, is_requirement
from fairseq_ext.corpora.files import SUFFIXES, check_file, is_tar, is_zip
from fairseq_ext.corpora.gettext_catalogues import read_catalogues
from fairseq_ext.corpora.parallel_files import moses_stems, read_jsonl, read_moses_zip, read_parallel_files, read_tsv
from fairseq_ext.corpora.raw_text import Markup
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.corpora.translation_memories import read_memory
from fairseq_ext.inputs.domain_names import check_domain_names
from fairseq_ext.inputs.errors import InputError

FORMS = (
    "two files as NAME.{lang}, a .tsv, .jsonl, .tmx or .xlf (these also .gz, .zst, .xz), a Moses .zip, "
    "opus:CORPUS/VERSION, or gettext catalogues: .po, .mo, a directory, wheel, zip or tar archive, or a pinned package "
    "(name==version)"
)
_LANG = "{lang}"


class Form(Enum):
    """What an entry is."""

    PARALLEL_FILES, OPUS, PACKAGE, CATALOGUES, MOSES_ZIP, TSV, JSONL, MEMORY = range(8)


# The files that hold both languages, by their suffix.
BILINGUAL = {".tsv": Form.TSV, ".jsonl": Form.JSONL, **dict.fromkeys(translation_memories.SUFFIXES, Form.MEMORY)}


def read_entry(
    entry: str,
    langs: tuple[str, str],
    policy: str,
    tally: Counter[str],
    downloads: Path,
    *,
    markup: Markup = "keep",
    seen: set[Pair] | None = None,
) -> Iterator[Pair]:
    """Yield an entry's pairs, canonical and in order; a pair may have an empty side.

    Args:
        entry: see ``FORMS``.
        langs: source and target language, as the entry names them.
        policy: what to do with text that is not UTF-8, one of
            :data:`~fairseq_ext.corpora.raw_text.ON_BAD_UTF8`. XML and catalogues must be right in any case.
        tally: counts what was read (``lines``), left out and mended.
        downloads: where packages and OPUS's zips are, or are fetched to.
        markup: whether inline markup of XML and catalogues stays in the text.
        seen: pairs of catalogues read before, which are not repeated.
    """
    path = fetch_entries([entry], langs, downloads).get(entry, Path(entry))
    match entry_form(entry, langs):
        case Form.PARALLEL_FILES:
            source, target = entry_paths(entry, langs)
            return read_parallel_files((source, target), policy, tally)
        case Form.MOSES_ZIP | Form.OPUS:
            return read_moses_zip(path, langs, policy, tally)
        case Form.TSV:
            return read_tsv(path, policy, tally)
        case Form.JSONL:
            return read_jsonl(path, langs, policy, tally)
        case Form.MEMORY:
            return read_memory(path, langs, markup, tally)
        case Form.CATALOGUES | Form.PACKAGE:
            return read_catalogues(path, langs[1], markup, tally, set() if seen is None else seen)


def entry_form(entry: str, langs: tuple[str, str]) -> Form:
    """Tell an entry's form, by its name if that says it, else by what is in the file, which must be there."""
    if _LANG in entry:
        for side in entry_paths(entry, langs):
            check_file(side, f"{entry!r} needs it")
        return Form.PARALLEL_FILES
    if is_opus(entry):
        check_opus(entry)
        return Form.OPUS
    if is_requirement(entry):
        return Form.PACKAGE
    path = Path(entry)
    is_folder = os.path.isdir(entry)  # Path's own would raise where a folder may not be entered.
    if not is_folder:
        check_file(path, f"give {FORMS}")
    inner = path.with_suffix("") if path.suffix in SUFFIXES else path
    if inner.suffix in BILINGUAL:
        return BILINGUAL[inner.suffix]
    if is_folder or path.suffix in (".po", ".mo", ".whl"):
        return Form.CATALOGUES
    if is_zip(path):
        return Form.MOSES_ZIP if moses_stems(path, langs) else Form.CATALOGUES
    if is_tar(path):
        return Form.CATALOGUES
    raise InputError(f"{entry!r}: is of no form known here; give {FORMS}")


def entry_paths(entry: str, langs: tuple[str, str]) -> list[Path]:
    """The files and directories that an entry stands for; none if it has to be fetched."""
    if _LANG in entry:
        return [Path(entry.replace(_LANG, lang)) for lang in langs]
    return [] if is_opus(entry) or is_requirement(entry) else [Path(entry)]


def check_entries(domains: Mapping[str, Sequence[str]], langs: tuple[str, str]) -> list[Path]:
    """Return the paths that the entries stand for, in order of the domains, after a look at every entry."""
    paths = []
    for name in sorted(domains):
        for entry in domains[name]:
            try:
                entry_form(entry, langs)
            except InputError as error:
                raise InputError(f"{name}: {error}") from None
            paths += entry_paths(entry, langs)
    return paths


def fetch_entries(entries: Sequence[str], langs: tuple[str, str], downloads: Path) -> dict[str, Path]:
    """Return the files of those entries that stand for a download, after fetching what is not there yet."""
    packages = [entry for entry in entries if is_requirement(entry)]
    return {
        **(fetch_packages(packages, downloads) if packages else {}),
        **fetch_opus([entry for entry in entries if is_opus(entry)], langs, downloads),
    }


def folder_entries(folder: Path, langs: tuple[str, str]) -> dict[str, list[str]]:
    """Return the domains of a folder of ``DOMAIN.LANG`` files, compressed or not, each with its entry."""
    if not folder.is_dir():
        raise InputError(f"{folder}: not found; give a folder with DOMAIN.{langs[0]}, DOMAIN.{langs[1]}")
    sides = [domain_files(folder, lang) for lang in langs]
    if not any(sides):
        raise InputError(f"{folder}: holds no files named DOMAIN.{langs[0]} and DOMAIN.{langs[1]}")
    entries = {}
    for name in check_domain_names(sorted({**sides[0], **sides[1]}), str(folder)):
        one, other = (side.get(name) for side in sides)
        if one is None or other is None:
            there, missing = langs if other is None else langs[::-1]
            file = f"{name}.{there}{one or other or ''}"
            raise InputError(f"{folder / file}: its other side {name}.{missing} is missing")
        if one != other:
            files = f"{name}.{langs[0]}{one} and {name}.{langs[1]}{other}"
            raise InputError(f"{folder}: {files} are not compressed alike; give both sides the same suffix")
        entries[name] = [str(folder / f"{name}.{_LANG}{one}")]
    return entries


def domain_files(folder: Path, ending: str) -> dict[str, str]:
    """By domain, the suffix that tells how its file ``DOMAIN.ENDING`` is compressed."""
    suffixes: dict[str, str] = {}
    files = os.listdir(folder)  # glob takes a folder that may not be read for an empty one
    for suffix in ("", *SUFFIXES):
        for file in files:
            name = file.removesuffix(f".{ending}{suffix}")
            if name == file or name.startswith("."):
                continue
            if name in suffixes:
                raise InputError(f"{folder / file}: there is also {name}.{ending}{suffixes[name]}; remove one of them")
            suffixes[name] = suffix
    return suffixes
