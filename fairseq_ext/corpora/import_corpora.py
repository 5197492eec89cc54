"""Importing a domain: its corpora, in whatever form, become two plain files of canonical lines.

What import counts on the way (``tally``): ``lines``, the lines, units or messages read;
``bad_utf8_dropped``, ``units_without_translation`` and ``messages_…`` (fuzzy, repeated and so on), those of them
that are no pairs now; and what was mended, see :mod:`fairseq_ext.corpora.raw_text`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.corpora.blocks import CorpusIndex, CorpusWriter
from fairseq_ext.corpora.entries import (
    FORMS,
    Form,
    check_entries,
    entry_form,
    fetch_entries,
    read_entry,
)
from fairseq_ext.corpora.files import SUFFIXES, open_binary
from fairseq_ext.corpora.languages import check_language
from fairseq_ext.corpora.raw_text import MARKUP, ON_BAD_UTF8, Markup
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.domains.names import check_domain_names
from fairseq_ext.inputs.errors import InputError


def import_domain(
    folder: Path,
    name: str,
    entries: Sequence[str],
    langs: tuple[str, str],
    *,
    on_bad_utf8: str,
    downloads: Path,
    markup: Markup = "keep",
) -> CorpusIndex:
    """Write ``NAME.SRC`` and ``NAME.TGT`` from a domain's entries, and the index of their blocks.

    Args:
        folder: where to write; it must exist.
        name: the domain.
        entries: what it is made of, in this order; see :mod:`fairseq_ext.corpora.entries`.
        langs: source and target language.
        on_bad_utf8: what to do with text that is not UTF-8, one of ``ON_BAD_UTF8``.
        downloads: where fetched files are kept.
        markup: whether inline markup of TMX, XLIFF and catalogues stays in the text.

    Returns:
        The index, with the number of pairs and the tally of what was read.
    """
    if on_bad_utf8 not in ON_BAD_UTF8:
        raise InputError(f"on_bad_utf8: {on_bad_utf8!r} is unknown; choose one of {', '.join(ON_BAD_UTF8)}")
    tally: Counter[str] = Counter()
    seen: set[Pair] = set()
    total = 0
    with CorpusWriter(folder, name, langs) as writer:
        for entry in entries:
            pairs = read_entry(entry, langs, on_bad_utf8, tally, downloads, markup=markup, seen=seen)
            with_text = writer.write(pairs)
            total += with_text
            if not with_text and entry_form(entry, langs) not in (Form.CATALOGUES, Form.PACKAGE):
                raise InputError(f"{name}: {entry}: in no line both sides have text")
        if not total:
            raise InputError(f"{name}: no finished {langs[1]!r} translation in {', '.join(entries)}")
        return writer.write_index(tally)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``fairseq-ext corpora``: one domain, outside of any experiment."""
    parser = argparse.ArgumentParser(
        description="Write DOMAIN.SRC and DOMAIN.TGT from corpora of any form, one sentence a line.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("domain", help="name of the domain, e.g. law")
    parser.add_argument("entries", nargs="+", metavar="ENTRY", help=FORMS)
    parser.add_argument("--output", type=Path, default=Path("."), metavar="DIR", help="where to write")
    parser.add_argument("--source-lang", default="en", metavar="SRC", help="as the corpora name it")
    parser.add_argument("--target-lang", required=True, metavar="TGT", help="as the corpora name it")
    parser.add_argument(
        "--downloads",
        type=Path,
        default=Path("downloads"),
        metavar="DIR",
        help="where fetched files are kept",
    )
    parser.add_argument(
        "--on-bad-utf8",
        choices=ON_BAD_UTF8,
        default="fail",
        help="text that is not UTF-8: stop, drop its pair, or replace its bytes by U+FFFD",
    )
    parser.add_argument(
        "--markup",
        choices=MARKUP,
        default="keep",
        help="inline markup of TMX, XLIFF and catalogues: leave it in the text, or remove it",
    )
    parser.add_argument(
        "--compress",
        choices=("none", *(suffix[1:] for suffix in SUFFIXES)),
        default="none",
        help="how the two files are compressed",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the two files if they are there")
    options = parser.parse_args(arguments)
    check_domain_names([options.domain], "domain")
    langs = (options.source_lang, options.target_lang)
    for option, lang in zip(("--source-lang", "--target-lang"), langs, strict=True):
        check_language(lang, option)
    if langs[0] == langs[1]:
        raise InputError(f"--target-lang: {langs[1]!r} is also the --source-lang; change one")
    inputs = check_entries({options.domain: options.entries}, langs)
    suffix = "" if options.compress == "none" else f".{options.compress}"
    outputs = [options.output / f"{options.domain}.{lang}{suffix}" for lang in langs]
    for path in outputs:
        if os.path.isdir(path):
            raise InputError(f"{path}: is a folder, where a file is to be written; choose another --output")
    for path in {path.resolve() for path in inputs} & {path.resolve() for path in outputs}:
        raise InputError(f"{path}: would be overwritten by what is made of it; choose another --output")
    for path in () if options.overwrite else outputs:
        if path.exists():
            raise InputError(f"{path}: is there already; give --overwrite to replace it, or choose another --output")
    try:
        _import_to(options, langs, outputs)
    except OSError as error:
        raise InputError(
            f"{error.filename or options.output}: {error.strerror}; mend that, or choose another"
        ) from None


def _import_to(options: argparse.Namespace, langs: tuple[str, str], outputs: Sequence[Path]) -> None:
    """Import beside the outputs, and move what is complete in their place."""
    fetch_entries(options.entries, langs, options.downloads)
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".import-", dir=options.output) as temporary:
        folder = Path(temporary)
        index = import_domain(
            folder,
            options.domain,
            options.entries,
            langs,
            on_bad_utf8=options.on_bad_utf8,
            downloads=options.downloads,
            markup=options.markup,
        )
        counts = ", ".join(f"{count} {key.replace('_', ' ')}" for key, count in index["tally"].items())
        print(f"{options.domain}: {index['pairs']} pairs ({counts})", file=sys.stderr)
        _move_sides([folder / f"{options.domain}.{lang}" for lang in langs], outputs)


def _move_sides(files: Sequence[Path], outputs: Sequence[Path]) -> None:
    """Put both files in their place, compressed as their names there say."""
    ready = [file.with_name(output.name) for file, output in zip(files, outputs, strict=True)]
    for file, compressed in zip(files, ready, strict=True):
        if compressed != file:
            with file.open("rb") as source, open_binary(compressed, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
    # A kill must not leave a new side beside an old one: without the old ones it leaves a side missing.
    for output in outputs:
        output.unlink(missing_ok=True)
    for file, output in zip(ready, outputs, strict=True):
        os.replace(file, output)
