"""Verbs of text: corpora into parallel text, more domains, labels."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from fairseq_ext.cli.verbs import Verb, add_config
from fairseq_ext.inputs.errors import InputError


def _normalise_options(parser: ArgumentParser) -> None:
    parser.description = "Normalise lines from standard input as clean.normalise of the experiment file says."
    add_config(parser)
    parser.add_argument("--lang", help="language of the text (default: the experiment's source_lang)")


def _normalise(options: Namespace) -> None:
    from collections import Counter

    from fairseq_ext.corpora.raw_text import canonical
    from fairseq_ext.corpora.text_files import stdin_lines
    from fairseq_ext.domains.names import count_domain_tags
    from fairseq_ext.filtering.normalise import normalise_lines
    from fairseq_ext.recipes.translation.config import load_config

    config = load_config(options.config)
    for number, given in enumerate(stdin_lines(), start=1):
        line = canonical(given, Counter())
        if config.cleaning.normalise:
            [line] = normalise_lines([line], options.lang or config.source_lang, config.cleaning.normalise)
        if count_domain_tags(line) > count_domain_tags(given):
            raise InputError(
                f"standard input, line {number}: holds a domain's tag in odd characters; write it plainly, as in "
                "<domain:NAME>, or remove it"
            )
        # Flushed by line, so that an interactive translation behind it answers at once.
        print(line, flush=True)


VERBS = {
    "normalise": Verb("normalise text as an experiment's training text was", _normalise_options, _normalise),
}
