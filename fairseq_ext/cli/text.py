"""Verbs for text: import corpora, label and normalise text."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

from fairseq_ext.base.domain_names import count_domain_tags
from fairseq_ext.base.errors import InputError
from fairseq_ext.cli.verbs import Verb, add_config, argument


def _corpora_options(parser: ArgumentParser) -> None:
    from fairseq_ext.text.entries import FORMS
    from fairseq_ext.text.files import SUFFIXES
    from fairseq_ext.text.raw_text import MARKUP, ON_BAD_UTF8

    add = parser.add_argument
    add("domain", help="name of the domain, e.g. law")
    add("entries", nargs="+", metavar="ENTRY", help=FORMS)
    add("--output", type=Path, default=Path("."), metavar="DIR", help="directory to write to")
    add("--source-lang", default="en", metavar="SRC", help="source language, as named in the corpora")
    add("--target-lang", required=True, metavar="TGT", help="target language, as named in the corpora")
    add("--downloads", type=Path, default=Path("downloads"), metavar="DIR", help="directory for downloaded files")
    add(
        "--on-bad-utf8",
        choices=ON_BAD_UTF8,
        default="fail",
        help="for text that is not valid UTF-8: fail, drop the pair, or replace invalid bytes with U+FFFD",
    )
    add(
        "--markup",
        choices=MARKUP,
        default="keep",
        help="whether to keep or strip inline markup of TMX, XLIFF and catalogues",
    )
    compressions = ("none", *(suffix[1:] for suffix in SUFFIXES))
    add("--compress", choices=compressions, default="none", help="compression of the two files")
    add("--overwrite", action="store_true", help="replace existing files")


def _corpora(options: Namespace) -> None:
    """Convert corpora of any supported form to DOMAIN.SRC and DOMAIN.TGT, one sentence per line."""
    from fairseq_ext.text.import_corpora import write_domain
    from fairseq_ext.text.languages import check_language

    langs = (options.source_lang, options.target_lang)
    for option, lang in zip(("--source-lang", "--target-lang"), langs, strict=True):
        check_language(lang, option)
    if langs[0] == langs[1]:
        raise InputError(f"--target-lang: {langs[1]!r} is also the --source-lang; change one")
    write_domain(
        options.domain,
        options.entries,
        langs,
        options.output,
        downloads=options.downloads,
        on_bad_utf8=options.on_bad_utf8,
        markup=options.markup,
        suffix="" if options.compress == "none" else f".{options.compress}",
        overwrite=options.overwrite,
    )


def _label_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--teacher", type=Path, required=True, metavar="DIR", help="folder with teacher.json")
    add("--input", type=Path, metavar="FILE", help="text, one sentence per line")
    add("--output", type=Path, metavar="FILE.npy", help="labels to write")
    check = "only verify the checksums of all labels in --teacher"
    add("--check", action="store_true", help=check)


def _label(options: Namespace) -> None:
    """Label text with a trained teacher: a .npy file with a row of domain probabilities per line."""
    if options.check:
        from fairseq_ext.data.teacher_labels import check_labels

        count = check_labels(options.teacher)
        print(f"{options.teacher}: {count} label files are unchanged", file=sys.stderr)
        return
    if options.input is None or options.output is None:
        raise InputError("--input and --output: give both, or --check")
    if options.output.suffix != ".npy":
        raise InputError(f"--output {options.output}: must end in .npy")
    from fairseq_ext.classifiers.teacher import label_file

    label_file(options.teacher, options.input, options.output)


def _normalise(options: Namespace) -> None:
    """Normalise lines from standard input as set by clean: normalise in the experiment file."""
    from fairseq_ext.experiments.translation.config import load_config
    from fairseq_ext.text.normalise import normalise_lines
    from fairseq_ext.text.raw_text import canonical
    from fairseq_ext.text.text_files import stdin_lines

    config = load_config(options.config)
    for row, given in enumerate(stdin_lines(), start=1):
        line = canonical(given, Counter())
        if config.cleaning.normalise:
            [line] = normalise_lines([line], options.lang or config.source_lang, config.cleaning.normalise)
        if count_domain_tags(line) > count_domain_tags(given):
            raise InputError(
                f"standard input, line {row}: contains a domain tag in unusual characters; write it as <domain:NAME>, "
                "or remove it"
            )
        # Flush each line, so that interactive translation in the same pipe answers at once.
        print(line, flush=True)


_LANG = argument("--lang", help="language of the text (default: the experiment's source_lang)")
VERBS = {
    "corpora": Verb("convert corpora of any supported form to parallel text", [_corpora_options], _corpora),
    "label": Verb("label text with a trained domain classifier", [_label_options], _label),
    "normalise": Verb("normalise text like the training text of an experiment", [add_config, _LANG], _normalise),
}
