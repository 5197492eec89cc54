"""Forms of corpora: detect them, read each as a stream of pairs, and find the corpora in a folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from pathlib import Path

from fairseq_ext.base.domain_names import check_domain_names
from fairseq_ext.base.errors import InputError, naming
from fairseq_ext.text import translation_memories
from fairseq_ext.text.downloads import check_opus, fetch_opus, fetch_packages, is_opus, is_requirement
from fairseq_ext.text.files import SUFFIXES, check_file, is_tar, is_zip
from fairseq_ext.text.gettext_catalogues import read_catalogues
from fairseq_ext.text.languages import check_language, has_spaces
from fairseq_ext.text.parallel_files import moses_stems, read_jsonl, read_moses_zip, read_parallel_files, read_tsv
from fairseq_ext.text.raw_text import Markup
from fairseq_ext.text.text_files import Pair
from fairseq_ext.text.translation_memories import read_memory

FORMS = (
    "two files as NAME.{lang}, a .tsv, .jsonl, .tmx or .xlf (these also .gz, .zst, .xz), a Moses .zip, "
    "opus:CORPUS/VERSION, or gettext catalogues: .po, .mo, a directory, wheel, zip or tar archive, or a pinned package "
    "(name==version)"
)
_LANG = "{lang}"
_SAMPLE = 2000  # pairs whose words are counted


class Form(Enum):
    """Form of an entry."""

    PARALLEL_FILES, OPUS, PACKAGE, CATALOGUES, MOSES_ZIP, TSV, JSONL, MEMORY = range(8)


# Forms of files with both languages, by suffix.
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
    """Yield an entry's pairs in order, with canonical text; one side of a pair may be empty.

    Args:
        entry: corpus in one of the forms listed in ``FORMS``.
        langs: source and target language codes, as used in the entry.
        policy: how to handle text that is not UTF-8, one of
            :data:`~fairseq_ext.text.raw_text.ON_BAD_UTF8`. XML and catalogues must always be well-encoded.
        tally: counter of lines read (``lines``), dropped and repaired; updated in place.
        downloads: folder of downloaded packages and OPUS zips; missing ones are downloaded to it.
        markup: whether to keep inline markup of XML and catalogues.
        seen: pairs of previously read catalogues, which are skipped; updated in place.
    """
    path = fetch_entries([entry], langs, downloads).get(entry, Path(entry))
    match entry_form(entry, langs):
        case Form.PARALLEL_FILES:
            source, target = entry_paths(entry, langs)
            return read_parallel_files((source, target), policy, tally)
        case Form.MOSES_ZIP | Form.OPUS:
            return read_moses_zip(path, langs, policy, tally)
        case Form.TSV:
            return read_tsv(path, langs, policy, tally)
        case Form.JSONL:
            return read_jsonl(path, langs, policy, tally)
        case Form.MEMORY:
            return read_memory(path, langs, markup, tally)
        case Form.CATALOGUES | Form.PACKAGE:
            return read_catalogues(path, langs[1], markup, tally, set() if seen is None else seen)


def entry_form(entry: str, langs: tuple[str, str]) -> Form:
    """Return an entry's form, detected from its name or else from the contents of the file, which must exist."""
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
    is_folder = os.path.isdir(entry)  # Path.is_dir would raise if access is denied.
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
    raise InputError(f"{entry!r}: has an unknown format; give {FORMS}")


def entry_paths(entry: str, langs: tuple[str, str]) -> list[Path]:
    """Return the files or folder of an entry; an empty list for downloads."""
    if _LANG in entry:
        return [Path(entry.replace(_LANG, lang)) for lang in langs]
    return [] if is_opus(entry) or is_requirement(entry) else [Path(entry)]


def check_entries(domains: Mapping[str, Sequence[str]], langs: tuple[str, str]) -> list[Path]:
    """Check all entries and return their paths, in the order of the domains."""
    paths = []
    for name in sorted(domains):
        for entry in domains[name]:
            with naming(name):
                entry_form(entry, langs)
            paths += entry_paths(entry, langs)
    return paths


def fetch_entries(entries: Sequence[str], langs: tuple[str, str], downloads: Path) -> dict[str, Path]:
    """Return the files of those entries that are downloads, downloading missing ones."""
    packages = [entry for entry in entries if is_requirement(entry)]
    return {
        **(fetch_packages(packages, downloads) if packages else {}),
        **fetch_opus([entry for entry in entries if is_opus(entry)], langs, downloads),
    }


def folder_entries(folder: Path, langs: tuple[str, str]) -> dict[str, list[str]]:
    """Return the entries, by domain, of a folder of ``DOMAIN.LANG`` files, which may be compressed."""
    if not folder.is_dir():
        raise InputError(f"{folder}: not found; give a folder with DOMAIN.{langs[0]} and DOMAIN.{langs[1]}")
    sides = [domain_files(folder, lang) for lang in langs]
    if not any(sides):
        raise InputError(
            f"{folder}: has no files DOMAIN.{langs[0]} and DOMAIN.{langs[1]}; add them or choose another folder"
        )
    entries = {}
    for name in check_domain_names(sorted({**sides[0], **sides[1]}), str(folder)):
        one, other = (side.get(name) for side in sides)
        if one is None or other is None:
            there, missing = langs if other is None else langs[::-1]
            file = f"{name}.{there}{one or other or ''}"
            raise InputError(f"{folder / file}: its other side {name}.{missing} is missing; add it")
        if one != other:
            files = f"{name}.{langs[0]}{one} and {name}.{langs[1]}{other}"
            raise InputError(f"{folder}: {files} have different suffixes; compress both sides the same way")
        entries[name] = [str(folder / f"{name}.{_LANG}{one}")]
    return entries


def domain_files(folder: Path, ending: str) -> dict[str, str]:
    """Return, by domain, the compression suffix of its file ``DOMAIN.ENDING``; empty for plain files."""
    suffixes: dict[str, str] = {}
    files = os.listdir(folder)  # glob would treat an unreadable folder as empty
    for suffix in ("", *SUFFIXES):
        for file in files:
            name = file.removesuffix(f".{ending}{suffix}")
            if name == file or name.startswith("."):
                continue
            if name in suffixes:
                raise InputError(f"{folder / file}: {name}.{ending}{suffixes[name]} also exists; remove one of them")
            suffixes[name] = suffix
    return suffixes


@dataclass(frozen=True)
class Corpora:
    """Corpora found in a folder.

    ``words`` is the mean number of words on the target side, estimated as two characters per word for languages
    without spaces. ``entries`` are the entries of each domain if the folder has bilingual files; otherwise empty.
    ``samples`` are the first pairs of each domain.
    """

    folder: Path
    langs: tuple[str, str]
    pairs: Mapping[str, int]
    words: float
    entries: Mapping[str, Sequence[str]]
    samples: Mapping[str, Sequence[Pair]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.pairs.values())


def find_corpora(folder: Path, source: str | None = None, target: str | None = None) -> Corpora:
    """Find ``DOMAIN.LANG`` files in two languages and bilingual files such as ``DOMAIN.tmx``, compressed or not.

    ``source`` defaults to English if present, and ``target`` to the other language.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: not found; create it with files DOMAIN.en and DOMAIN.pl, or other languages")
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    bare = {name: Path(name).with_suffix("") if Path(name).suffix in SUFFIXES else Path(name) for name in names}
    endings = {path.suffix[1:] for path in bare.values() if path.suffix}
    langs = _languages(folder, endings, source, target)
    for code in langs:
        check_language(code, str(folder))
    entries = folder_entries(folder, langs) if endings & {*langs} else {}
    in_one = {name: path.stem for name, path in bare.items() if path.suffix in BILINGUAL}
    if in_one:
        check_domain_names(sorted(set(in_one.values())), str(folder))
    for name, domain in in_one.items():
        entries.setdefault(domain, []).append(str(folder / name))
    looks = {domain: [_look(entry, langs) for entry in entries[domain]] for domain in sorted(entries)}
    samples = {domain: [pair for _, sample in each for pair in sample] for domain, each in looks.items()}
    words = [_words(pair.target, langs[1]) for sample in samples.values() for pair in sample]
    pairs = {domain: sum(count for count, _ in each) for domain, each in looks.items()}
    return Corpora(folder, langs, pairs, sum(words) / len(words), entries if in_one else {}, samples)


def _languages(folder: Path, endings: set[str], source: str | None, target: str | None) -> tuple[str, str]:
    found = sorted(endings - {ending[1:] for ending in BILINGUAL})
    if source and target and source != target and (len(found) < len(endings) or {source, target} <= {*found}):
        return source, target
    if len(found) == 1 and len(endings) == 1:
        raise InputError(f"{folder}: has only {found[0]} files; add their translations as DOMAIN.LANG")
    langs = sorted(found, key=lambda lang: (lang != source, lang == target, lang != "en"))
    if len(langs) != 2 or {source, target} - {None, *langs}:
        raise InputError(
            f"{folder}: has files ending in {', '.join(found) or 'no language'}; choose two with --source and --target"
        )
    return langs[0], langs[1]


def _look(entry: str, langs: tuple[str, str]) -> tuple[int, list[Pair]]:
    """Return the number of pairs of an entry, and the first ones."""
    pairs = read_entry(entry, langs, "replace", Counter(), Path())
    sample = [*islice(pairs, _SAMPLE)]
    return len(sample) + sum(1 for _ in pairs), sample


def _words(line: str, lang: str) -> int:
    return len(line.split()) if has_spaces(lang) else (len(line) + 1) // 2
