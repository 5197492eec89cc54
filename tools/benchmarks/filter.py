"""Clean a corpus with this project and with OpusFilter, and compare time, memory and the pairs kept.

    python -m venv of && of/bin/pip install opusfilter==3.3.1 "py3langid<0.4"
    python tools/benchmark.py filter CORPORA en pl --opusfilter of/bin/opusfilter

CORPORA is a folder of DOMAIN.LANG files. (OpusFilter 3.3.1 needs a py3langid before 0.4, which has the same model as
langid.) A reproducible benchmark corpus of any size is made from them:

* the shuffled pairs of all domains; for larger corpora also variants of them: two pairs joined, or shifted digits
  and an additional number at the start, on both sides;
* a share of pairs is corrupted as in shared/cleaning.py, for instance by swapped sides or repetitions.

Both tools process it in the same way, as described in equivalents() there, with the same number of processes: Moses
punctuation normalisation, filters, deduplication. For each whole command, from files to files, the table shows the
time; the CPU time, which is more reliable on a busy machine; and the largest sum of the proportional set sizes (PSS) of
its processes, sampled (Linux only). The same measurements on a tenth of the pairs show how the costs grow with the
corpus.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path

from benchmarks.shared.cases import Case

UNIT = "pairs/s"
_FILTERS = ("length", "length_ratio", "long_words", "characters", "identical", "agreement", "language")


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("corpora", type=Path, help="folder of DOMAIN.LANG files")
    parser.add_argument("langs", nargs=2, metavar="LANG", help="source and target language, as in the file names")
    parser.add_argument("--pairs", type=int, default=1_000_000, help="size of the benchmark corpus")
    parser.add_argument(
        "--opusfilter",
        type=Path,
        metavar="PATH",
        help="OpusFilter's executable; without it, only this project is measured",
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes of each tool")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the corpus")
    parser.add_argument(
        "--without",
        nargs="+",
        default=[],
        metavar="NAME",
        choices=["normalise", *_FILTERS],
        help="leave out on both sides: %(choices)s",
    )
    parser.set_defaults(rounds=1)


def cases(options: Namespace) -> list[Case]:
    """Return cases for both tools on a tenth of the pairs, and on all."""
    from benchmarks.shared.cleaning import opusfilter_command, our_command, prepare

    found = []
    for count in (max(1, options.pairs // 10), options.pairs):
        clean = partial(prepare, options, count)
        theirs = f"OpusFilter, {count:,}"
        if options.opusfilter:
            command = partial(opusfilter_command, options.opusfilter.absolute())
            found.append(Case(theirs, partial(clean, command), count, group=f"{count:,}"))
        baselines = (theirs,) if options.opusfilter else ()
        found.append(Case(f"ours, {count:,}", partial(clean, our_command), count, baselines, group=f"{count:,}"))
    return found
