"""Verbs of text: corpora into parallel text, more domains, labels."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from fairseq_ext.cli.verbs import Verb, add_config, add_dry_run, number
from fairseq_ext.inputs.errors import InputError

_LARGEST_SEED = (1 << 31) - 1


def _corpora_options(parser: ArgumentParser) -> None:
    from fairseq_ext.corpora.entries import FORMS
    from fairseq_ext.corpora.files import SUFFIXES
    from fairseq_ext.corpora.raw_text import MARKUP, ON_BAD_UTF8

    parser.description = "Write DOMAIN.SRC and DOMAIN.TGT from corpora of any form, one sentence a line."
    add = parser.add_argument
    add("domain", help="name of the domain, e.g. law")
    add("entries", nargs="+", metavar="ENTRY", help=FORMS)
    add("--output", type=Path, default=Path("."), metavar="DIR", help="where to write")
    add("--source-lang", default="en", metavar="SRC", help="as the corpora name it")
    add("--target-lang", required=True, metavar="TGT", help="as the corpora name it")
    add("--downloads", type=Path, default=Path("downloads"), metavar="DIR", help="where fetched files are kept")
    add(
        "--on-bad-utf8",
        choices=ON_BAD_UTF8,
        default="fail",
        help="text that is not UTF-8: stop, drop its pair, or replace its bytes by U+FFFD",
    )
    add(
        "--markup",
        choices=MARKUP,
        default="keep",
        help="inline markup of TMX, XLIFF and catalogues: leave it in the text, or remove it",
    )
    compressions = ("none", *(suffix[1:] for suffix in SUFFIXES))
    add("--compress", choices=compressions, default="none", help="how the two files are compressed")
    add("--overwrite", action="store_true", help="replace the two files if they are there")


def _corpora(options: Namespace) -> None:
    from fairseq_ext.corpora.import_corpora import write_domain
    from fairseq_ext.corpora.languages import check_language

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


def _split_options(parser: ArgumentParser) -> None:
    parser.description = (
        "Cut the domains of a folder of DOMAIN.LANG files into more, by the words of their sentences: k-means on "
        "TF-IDF within each, which has parts in proportion to its size. What is finished is not made again."
    )
    add = parser.add_argument
    add("folder", type=Path, help="has DOMAIN.LANG, compressed or not")
    add("output", type=Path, help="folder to write DOMAIN-1.LANG, DOMAIN-2.LANG, … to")
    add("--domains", type=int, required=True, metavar="N", help="how many to make of all together")
    add("--source-lang", default="en", metavar="LANG", help="language by which sentences are told apart")
    add("--target-lang", required=True, metavar="LANG", help="the other language")
    add("--seed", type=number(0, _LARGEST_SEED), default=1, help="where the clustering starts")
    add_dry_run(parser)


def _split(options: Namespace) -> None:
    from fairseq_ext.classifiers.split_domains import split_step
    from fairseq_ext.engine.steps import run_steps

    langs = (options.source_lang, options.target_lang)
    step = split_step(options.folder, options.output, langs, options.domains, options.seed)
    run_steps([step], dry_run=options.dry_run)


def _label_options(parser: ArgumentParser) -> None:
    parser.description = "Label text with a trained teacher: one row of domain probabilities a line, a .npy file."
    add = parser.add_argument
    add("--teacher", type=Path, required=True, metavar="DIR", help="folder with teacher.json")
    add("--input", type=Path, metavar="FILE", help="text, one sentence a line")
    add("--output", type=Path, metavar="FILE.npy", help="labels to write")
    check = "label nothing; read all labels in --teacher and compare their checksums"
    add("--check", action="store_true", help=check)


def _label(options: Namespace) -> None:
    if options.check:
        import sys

        from fairseq_ext.data.teacher_labels import check_labels

        count = check_labels(options.teacher)
        print(f"{options.teacher}: {count} label files are as they were written", file=sys.stderr)
        return
    if options.input is None or options.output is None:
        raise InputError("give --input and --output, or --check")
    if options.output.suffix != ".npy":
        raise InputError(f"--output must end in .npy, got {options.output}")
    from fairseq_ext.classifiers.labelling import label_file

    label_file(options.teacher, options.input, options.output)


def _normalise_options(parser: ArgumentParser) -> None:
    parser.description = "Normalise lines from standard input as clean.normalise of the experiment file says."
    add_config(parser)
    parser.add_argument("--lang", help="language of the text (default: the experiment's source_lang)")


def _normalise(options: Namespace) -> None:
    from collections import Counter

    from fairseq_ext.corpora.normalise import normalise_lines
    from fairseq_ext.corpora.raw_text import canonical
    from fairseq_ext.corpora.text_files import stdin_lines
    from fairseq_ext.inputs.domain_names import count_domain_tags
    from fairseq_ext.recipes.translation.config import load_config

    config = load_config(options.config)
    for row, given in enumerate(stdin_lines(), start=1):
        line = canonical(given, Counter())
        if config.cleaning.normalise:
            [line] = normalise_lines([line], options.lang or config.source_lang, config.cleaning.normalise)
        if count_domain_tags(line) > count_domain_tags(given):
            raise InputError(
                f"standard input, line {row}: holds a domain's tag in odd characters; write it plainly, as in "
                "<domain:NAME>, or remove it"
            )
        # Flushed by line, so that an interactive translation behind it answers at once.
        print(line, flush=True)


VERBS = {
    "corpora": Verb("make parallel text from corpora of any form", _corpora_options, _corpora),
    "split-domains": Verb("cut the domains of a folder of corpora into more", _split_options, _split),
    "label": Verb("label text with a trained domain classifier", _label_options, _label),
    "normalise": Verb("normalise text as an experiment's training text was", _normalise_options, _normalise),
}
