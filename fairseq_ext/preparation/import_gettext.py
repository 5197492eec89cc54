"""Parallel text, one pair of files a domain, from gettext catalogues in packages and folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairseq_ext.domains.names import check_domain_names
from fairseq_ext.errors import InputError
from fairseq_ext.preparation.corpora import write_lines
from fairseq_ext.preparation.gettext_catalogues import import_pairs
from fairseq_ext.preparation.packages import fetch_packages, is_requirement


def import_catalogues(
    folder: Path, catalogues: Mapping[str, Sequence[str]], langs: tuple[str, str], downloads: Path
) -> None:
    """Write ``DOMAIN.LANG`` from every domain's gettext catalogues.

    Args:
        folder: where to write.
        catalogues: by domain, what to read: paths and pinned packages (``name==version``).
        langs: source language, that of the message ids, and target language, as catalogues name it.
        downloads: where packages are fetched to, and found again.

    Raises:
        InputError: if a package or path cannot be had, or a domain has no pair.
    """
    check_entries(catalogues)
    entries = [entry for name in sorted(catalogues) for entry in catalogues[name]]
    wheels = fetch_packages([entry for entry in entries if is_requirement(entry)], downloads)
    for name in sorted(catalogues):
        paths = [wheels.get(entry, Path(entry)) for entry in catalogues[name]]
        pairs, dropped = import_pairs(paths, langs[1])
        if not pairs:
            raise InputError(f"{name}: no finished {langs[1]!r} translation in {', '.join(catalogues[name])}")
        for side, lang in enumerate(langs):
            write_lines(folder / f"{name}.{lang}", (pair[side] for pair in pairs))
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
        print(f"{name}: {len(pairs)} pairs; left out: {reasons or 'none'}", file=sys.stderr)


def check_entries(catalogues: Mapping[str, Sequence[str]]) -> list[Path]:
    """Return the paths among the entries, in order of the domains, after a look at every entry.

    Raises:
        InputError: naming the first entry that is neither a path that exists nor a pinned package.
    """
    paths = []
    for name in sorted(catalogues):
        for entry in catalogues[name]:
            if is_requirement(entry):
                continue
            if not Path(entry).exists():
                raise InputError(f"{name}: {entry!r} is neither a path nor a pinned package (name==version)")
            paths.append(Path(entry))
    return paths


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``data-prep/import_gettext.py``: one domain, outside of any experiment."""
    parser = argparse.ArgumentParser(
        description="Write DOMAIN.SRC and DOMAIN.TGT from gettext catalogues, one sentence a line.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("domain", help="name of the domain, e.g. erp")
    parser.add_argument(
        "catalogues",
        nargs="+",
        metavar="CATALOGUE",
        help="a .po or .mo file, directory, wheel, zip or tar archive, or a package to fetch (name==version)",
    )
    parser.add_argument("--output", type=Path, default=Path("."), metavar="DIR", help="where to write")
    parser.add_argument("--source-lang", default="en", metavar="SRC", help="language of the message ids")
    parser.add_argument("--target-lang", required=True, metavar="TGT", help="language as catalogues name it")
    parser.add_argument(
        "--downloads",
        type=Path,
        default=Path("downloads"),
        metavar="DIR",
        help="where fetched packages are kept",
    )
    options = parser.parse_args(arguments)
    check_domain_names([options.domain], "domain")
    langs = (options.source_lang, options.target_lang)
    options.output.mkdir(parents=True, exist_ok=True)
    import_catalogues(options.output, {options.domain: options.catalogues}, langs, options.downloads)
