"""Cleaning a corpus, side by side with OpusFilter on the same pairs: time, memory, what is kept.

    python -m venv of && of/bin/pip install opusfilter==3.3.1 "py3langid<0.4"
    python scripts/benchmark.py filter CORPORA en pl --opusfilter of/bin/opusfilter

CORPORA is a folder of DOMAIN.LANG files. (OpusFilter 3.3.1 needs a py3langid before 0.4, which holds the same
model as langid.) A benchmark corpus of any size is made of them, the same every time:

* the pairs of all domains, shuffled, and once that is not enough, variants of them: a pair joined with another,
  or with its digits shifted and a number in front, on both sides alike;
* of these, a share spoilt in the ways of shared/cleaning.py, from sides in the wrong order to repetitions.

Both tools then do the same with it, as equivalents() there says, with the same number of processes: normalise
punctuation by Moses's rules, filter, drop repeated pairs. Of each whole command, from files to files, the table has
the time; the time cores worked for it, which says more where others use them too; and the largest sum of the
proportional set sizes (PSS) of its processes, sampled (Linux only). The same on a tenth of the pairs shows what grows
with the corpus.
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
    parser.add_argument("langs", nargs=2, metavar="LANG", help="source and target language, as the files end")
    parser.add_argument("--pairs", type=int, default=1_000_000, help="size of the benchmark corpus")
    parser.add_argument("--opusfilter", type=Path, metavar="PATH", help="its executable; without it only we run")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes of each tool")
    parser.add_argument("--seed", type=int, default=1, help="another one makes another corpus")
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
    """Both tools on a tenth of the pairs, and on all."""
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
