"""Import a domain: convert its corpora, in any supported form, to two plain files of canonical lines.

The counts (``tally``) are ``lines``, the lines, units or messages read; ``bad_utf8_dropped``, ``header_lines``,
``units_without_translation`` and ``messages_…`` (fuzzy, repeated, etc.), the dropped ones among them; and counts of
repairs, see :mod:`fairseq_ext.text.raw_text`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairseq_ext.base.domain_names import check_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.text.blocks import CorpusIndex, write_corpus
from fairseq_ext.text.entries import Form, check_entries, entry_form, fetch_entries, read_entry
from fairseq_ext.text.files import open_binary
from fairseq_ext.text.raw_text import Markup
from fairseq_ext.text.text_files import Pair


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

    ``folder`` must exist. For the other arguments, see :func:`~fairseq_ext.text.entries.read_entry`.
    """
    tally: Counter[str] = Counter()
    seen: set[Pair] = set()

    def pairs() -> Iterator[Pair]:
        total = 0
        for entry in entries:
            with_text = 0
            for pair in read_entry(entry, langs, on_bad_utf8, tally, downloads, markup=markup, seen=seen):
                with_text += bool(pair.source and pair.target)
                yield pair
            if not with_text and entry_form(entry, langs) not in (Form.CATALOGUES, Form.PACKAGE):
                raise InputError(f"{name}: {entry}: no line has text on both sides; give another corpus")
            total += with_text
        if not total:
            raise InputError(
                f"{name}: {', '.join(entries)}: has no finished {langs[1]!r} translation; choose other corpora"
            )

    return write_corpus(folder, name, langs, pairs(), tally)


def write_domain(
    name: str,
    entries: Sequence[str],
    langs: tuple[str, str],
    output: Path,
    *,
    downloads: Path,
    on_bad_utf8: str = "fail",
    markup: Markup = "keep",
    suffix: str = "",
    overwrite: bool = False,
) -> None:
    """Write a domain's two files to the folder ``output``, and print counts to stderr.

    Files are compressed according to ``suffix``, such as ``.gz``. They replace existing ones only if ``overwrite`` is
    true.
    """
    check_domain_names([name], "domain")
    inputs = check_entries({name: entries}, langs)
    outputs = [output / f"{name}.{lang}{suffix}" for lang in langs]
    for path in outputs:
        if path.is_dir() or path.resolve() in {each.resolve() for each in inputs}:
            raise InputError(f"{path}: is a folder or one of the inputs; choose another --output")
        if path.exists() and not overwrite:
            raise InputError(f"{path}: already exists; give --overwrite to replace it, or choose another --output")
    try:
        fetch_entries(entries, langs, downloads)
        output.mkdir(parents=True, exist_ok=True)
        # In the output folder, so that complete files can be moved atomically.
        with tempfile.TemporaryDirectory(prefix=".import-", dir=output) as temporary:
            folder = Path(temporary)
            index = import_domain(
                folder, name, entries, langs, on_bad_utf8=on_bad_utf8, downloads=downloads, markup=markup
            )
            counts = ", ".join(f"{count} {key.replace('_', ' ')}" for key, count in index["tally"].items())
            print(f"{name}: {index['pairs']} pairs ({counts})", file=sys.stderr)
            _move_sides([folder / f"{name}.{lang}" for lang in langs], outputs)
    except OSError as error:
        raise InputError(
            f"{error.filename or output}: {error.strerror}; correct this, or choose another --output"
        ) from None


def _move_sides(files: Sequence[Path], outputs: Sequence[Path]) -> None:
    """Move both files to their outputs, compressed according to the outputs' names."""
    ready = [file.with_name(f"ready-{output.name}") for file, output in zip(files, outputs, strict=True)]
    for file, compressed in zip(files, ready, strict=True):
        with file.open("rb") as source, open_binary(compressed, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    # Interruption must not leave a new side with an old one. With the old files removed, it leaves a missing side.
    for output in outputs:
        output.unlink(missing_ok=True)
    for file, output in zip(ready, outputs, strict=True):
        os.replace(file, output)
