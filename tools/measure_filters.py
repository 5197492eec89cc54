#!/usr/bin/env python3
"""Measure how much known noise an experiment's filters detect, alone and together, and their cost in good pairs.

    fairseq-ext prepare my.yaml --to corpora
    python tools/measure_filters.py my.yaml                                    # its own corpora
    python tools/measure_filters.py loose.yaml strict.yaml --files a.en a.pl   # any text, several experiments

Good pairs are drawn evenly from the domains without changes, so noise in the corpora counts as lost good pairs. Each of
15 kinds of noise is applied to all of them, and both sets are filtered as in the experiment. Filters learn from other
pairs of the same corpora. To judge a limit, change it in a copy of the experiment and give both files. All text is kept
in memory.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.base.own_python import use_own_python

use_own_python()

from benchmarks.shared.noise import choose_pairs, draw_examples, measure
from fairseq_ext.base.errors import InputError, run_command
from fairseq_ext.experiments.translation.config import Translation, load_config
from fairseq_ext.text.blocks import load_index, read_block
from fairseq_ext.text.text_files import Pair, stream_parallel


def read_imported(config: Translation, path: Path) -> list[list[Pair]]:
    """Read the pairs of an experiment's imported corpora, by domain.

    Raises:
        InputError: if they are not imported yet.
    """
    corpora, langs = config.work_dir / "corpora", (config.source_lang, config.target_lang)
    names = sorted(file.name.removesuffix(f".{langs[0]}") for file in corpora.glob(f"*.{langs[0]}"))
    if not names:
        raise InputError(f"{corpora}: not found; run fairseq-ext prepare {path} --to corpora, or give --files")
    return [
        [
            pair
            for block in range(len(load_index(corpora, name)["offsets"]))
            for pair in read_block(corpora, name, langs, block)
        ]
        for name in names
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+", type=Path, metavar="CONFIG", help="experiment files, with one table each")
    parser.add_argument("--files", nargs=2, type=Path, metavar=("SOURCE", "TARGET"), help="text to use instead")
    parser.add_argument("--pairs", type=int, default=2000, help="good pairs to draw (default: 2000)")
    parser.add_argument("--learn", type=int, default=24000, help="other pairs to learn from (default: 24000)")
    parser.add_argument(
        "--min-words",
        type=int,
        default=4,
        help="minimum words on both sides of a good pair; shorter pairs cannot be halved (default: 4)",
    )
    parser.add_argument("--seed", type=int, default=1, help="random seed for drawing pairs (default: 1)")
    options = parser.parse_args()
    for name, least in (("pairs", 1), ("learn", 1), ("min_words", 0)):
        if getattr(options, name) < least:
            raise InputError(f"--{name.replace('_', '-')}: {getattr(options, name)} is too small; give {least} or more")
    configs = {path: load_config(path) for path in options.configs}
    first = configs[options.configs[0]]
    langs = (first.source_lang, first.target_lang)
    for path, config in configs.items():
        if (config.source_lang, config.target_lang) != langs:
            raise InputError(
                f"{path}: translates {config.source_lang} to {config.target_lang}, not {' to '.join(langs)}"
            )
    corpora = [list(stream_parallel(*options.files))] if options.files else read_imported(first, options.configs[0])
    examples, others = draw_examples(corpora, options.pairs, options.min_words, options.seed)
    learn_from = choose_pairs(others, options.learn, options.seed)
    print(f"{len(examples):,} good pairs; learned from {len(learn_from):,} others; seed {options.seed}; in percent")
    for path, config in configs.items():
        table = measure(config.cleaning, examples, learn_from, langs, path.stem)
        print(f"\n{table.markdown()}", flush=True)


if __name__ == "__main__":
    run_command(main)
