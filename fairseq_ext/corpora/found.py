"""What lies in a folder of corpora: languages, domains, and how much of each, before anything is prepared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from fairseq_ext.corpora.entries import BILINGUAL, Form, entry_form, entry_paths, folder_entries, read_entry
from fairseq_ext.corpora.files import SUFFIXES
from fairseq_ext.corpora.languages import has_spaces
from fairseq_ext.corpora.text_files import count_lines, stream_lines
from fairseq_ext.inputs.domain_names import check_domain_names
from fairseq_ext.inputs.errors import InputError

_SAMPLE = 2000


@dataclass(frozen=True)
class Corpora:
    """What lies in a folder.

    ``words`` are those on the target side of a mean pair; where no spaces separate them, two characters count as one.
    ``entries`` are what each domain is made of, where the folder holds more than text files; else empty.
    """

    folder: Path
    langs: tuple[str, str]
    pairs: Mapping[str, int]
    words: float
    entries: Mapping[str, Sequence[str]]

    @property
    def total(self) -> int:
        return sum(self.pairs.values())


def find_corpora(folder: Path, source: str | None = None, target: str | None = None) -> Corpora:
    """Look for ``DOMAIN.LANG`` in two languages and files that hold both, as ``DOMAIN.tmx``, compressed or not.

    Without ``source``, English is it where there is some; without ``target``, the other language.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; put DOMAIN.en and DOMAIN.pl, or other languages, into it")
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    bare = {name: Path(name).with_suffix("") if Path(name).suffix in SUFFIXES else Path(name) for name in names}
    endings = {path.suffix[1:] for path in bare.values() if path.suffix}
    langs = _languages(folder, endings, source, target)
    entries = folder_entries(folder, langs) if endings & {*langs} else {}
    in_one = {name: path.stem for name, path in bare.items() if path.suffix in BILINGUAL}
    if in_one:
        check_domain_names(sorted(set(in_one.values())), str(folder))
    for name, domain in in_one.items():
        entries.setdefault(domain, []).append(str(folder / name))
    looks = {domain: [_look(entry, langs) for entry in entries[domain]] for domain in sorted(entries)}
    words = [count for each in looks.values() for _, sample in each for count in sample]
    pairs = {domain: sum(count for count, _ in each) for domain, each in looks.items()}
    return Corpora(folder, langs, pairs, sum(words) / len(words), entries if in_one else {})


def _languages(folder: Path, endings: set[str], source: str | None, target: str | None) -> tuple[str, str]:
    found = sorted(endings - {ending[1:] for ending in BILINGUAL})
    if source and target and source != target and (len(found) < len(endings) or {source, target} <= {*found}):
        return source, target
    if len(found) == 1 and len(endings) == 1:
        raise InputError(
            f"{folder}: has files in {found[0]} alone; put the translations of each beside it, as DOMAIN.LANG"
        )
    langs = sorted(found, key=lambda lang: (lang != source, lang == target, lang != "en"))
    if len(langs) != 2 or {source, target} - {None, *langs}:
        raise InputError(
            f"{folder}: has files in {', '.join(found) or 'no language'}; choose two by --source and --target"
        )
    return langs[0], langs[1]


def _look(entry: str, langs: tuple[str, str]) -> tuple[int, list[int]]:
    """How many pairs an entry has, and of the first ones the target's words."""
    if entry_form(entry, langs) == Form.PARALLEL_FILES:
        paths = entry_paths(entry, langs)
        counts = [count_lines(path) for path in paths]
        if counts[0] != counts[1]:
            given = f"{paths[0].name} {counts[0]:,} and {paths[1].name} {counts[1]:,}"
            raise InputError(f"{paths[0].parent}: {given} lines; they must be line by line translations of each other")
        return counts[0], [_words(line, langs[1]) for line in islice(stream_lines(paths[1], "replace"), _SAMPLE)]
    pairs = read_entry(entry, langs, "replace", Counter(), Path())
    sample = [_words(pair.target, langs[1]) for pair in islice(pairs, _SAMPLE)]
    return len(sample) + sum(1 for _ in pairs), sample


def _words(line: str, lang: str) -> int:
    return len(line.split()) if has_spaces(lang) else (len(line) + 1) // 2
