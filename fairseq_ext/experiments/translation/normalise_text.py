"""Text to translate, normalised like the text that an experiment's models were trained on."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.corpora.raw_text import canonical
from fairseq_ext.corpora.text_files import stdin_lines
from fairseq_ext.domains.names import count_domain_tags
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.filtering.normalise import normalise_lines
from fairseq_ext.inputs.errors import InputError


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``data-prep/normalise.py``."""
    parser = argparse.ArgumentParser(
        description="Normalise lines from standard input as clean.normalise of the experiment file says."
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    parser.add_argument("--lang", help="language of the text (default: the experiment's source_lang)")
    options = parser.parse_args(arguments)
    config = load_config(options.config)
    for number, given in enumerate(stdin_lines(), start=1):
        line = canonical(given, Counter())
        if config.clean.normalise:
            [line] = normalise_lines([line], options.lang or config.source_lang, config.clean.normalise)
        if count_domain_tags(line) > count_domain_tags(given):
            raise InputError(
                f"standard input, line {number}: holds a domain's tag in odd characters; write it plainly, as in "
                "<domain:NAME>, or remove it"
            )
        # Flushed by line, so that an interactive translation behind it answers at once.
        print(line, flush=True)
