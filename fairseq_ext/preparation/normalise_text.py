"""Text to translate, normalised like the text that an experiment's models were trained on."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.corpora.raw_text import canonical
from fairseq_ext.corpora.text_files import stdin_lines
from fairseq_ext.experiment.config import load_config
from fairseq_ext.filtering.normalise import normalise_lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``data-prep/normalise.py``."""
    parser = argparse.ArgumentParser(
        description="Normalise lines from standard input as clean.normalise of the experiment file says."
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    parser.add_argument("--lang", help="language of the text (default: the experiment's source_lang)")
    options = parser.parse_args(arguments)
    config = load_config(options.config)
    for line in stdin_lines():
        line = canonical(line, Counter())
        if config.clean.normalise:
            [line] = normalise_lines([line], options.lang or config.source_lang, config.clean.normalise)
        # Flushed by line, so that an interactive translation behind it answers at once.
        print(line, flush=True)
