#!/usr/bin/env python3
"""Split the domains of a folder of DOMAIN.LANG files into smaller ones, for experiments with many similar domains.

Each line of a domain is in one of DOMAIN-1.LANG, DOMAIN-2.LANG, …, in the original order. Sentences are clustered by
their source within each domain, which has parts in proportion to its size.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.base.own_python import use_own_python

use_own_python()

import numpy as np

from fairseq_ext.base.errors import InputError, run_command
from fairseq_ext.base.steps import atomic_write
from fairseq_ext.text.entries import entry_paths, folder_entries
from fairseq_ext.text.parallel_files import read_parallel_files
from fairseq_ext.text.text_files import write_parallel

_COLUMNS = 1 << 16  # number of hash buckets for words
_DIMENSIONS = 50  # of the space in which sentences are clustered
_STARTS = 10  # of the clustering; the best is used
_SEED = 1


def main() -> None:
    """Write the parts, and print their sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with DOMAIN.LANG, which may be compressed")
    parser.add_argument("output", type=Path, help="folder to write DOMAIN-1.LANG, DOMAIN-2.LANG, … to")
    parser.add_argument("--domains", type=int, required=True, metavar="N", help="total number of new domains")
    parser.add_argument("--langs", nargs=2, required=True, metavar="LANG", help="source and target language")
    options = parser.parse_args()
    with atomic_write(options.output) as folder:
        folder.mkdir()
        sizes = write_parts(options.folder, folder, tuple(options.langs), options.domains)
    print(f"{len(sizes)} domains of {min(sizes.values()):,} to {max(sizes.values()):,} pairs")


def write_parts(folder: Path, output: Path, langs: tuple[str, str], num_domains: int) -> dict[str, int]:
    """Write the parts of each domain, and return their sizes; a domain that is not split keeps its name."""
    paths = {name: entry_paths(entry, langs) for name, [entry] in folder_entries(folder, langs).items()}
    corpora = {name: list(read_parallel_files((one, two), "fail", Counter())) for name, (one, two) in paths.items()}
    parts = shares([len(pairs) for pairs in corpora.values()], num_domains)
    sizes = {}
    for (name, pairs), count in zip(corpora.items(), parts, strict=True):
        labels = cluster([pair.source for pair in pairs], count)
        if len(set(labels)) < count:
            raise InputError(f"{name}: has too few distinct sentences for {count} domains; lower --domains")
        for number in range(count):
            part = f"{name}-{number + 1}" if count > 1 else name
            chosen = [pairs[row] for row in np.flatnonzero(labels == number)]
            write_parallel(output / f"{part}.{langs[0]}", output / f"{part}.{langs[1]}", chosen)
            sizes[part] = len(chosen)
    return sizes


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """Return the number of parts of each corpus: at least one, with further parts where parts are largest."""
    parts = [1] * len(sizes)
    for _ in range(total - len(sizes)):
        parts[max(range(len(sizes)), key=lambda row: sizes[row] / parts[row])] += 1
    return parts


def cluster(texts: Sequence[str], count: int) -> np.ndarray:
    """Return the cluster of each text, N; cluster 0 is the largest.

    Runs mini-batch k-means (Sculley 2010) on normalised singular vectors of TF-IDF. On TF-IDF itself, almost all texts
    would be in one cluster.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
    from sklearn.preprocessing import normalize
    from threadpoolctl import threadpool_limits

    if count == 1 or len(set(texts)) < count:
        return np.zeros(len(texts), dtype=np.int64)
    words = HashingVectorizer(n_features=_COLUMNS, alternate_sign=False, norm=None, token_pattern=r"\w+")
    weights = TfidfTransformer(sublinear_tf=True).fit_transform(words.transform(texts))
    # One thread, since the rounding of sums depends on the number of threads.
    with threadpool_limits(1):
        points = normalize(TruncatedSVD(_DIMENSIONS, random_state=_SEED).fit_transform(weights))
        found = MiniBatchKMeans(count, random_state=_SEED, n_init=_STARTS).fit_predict(points)
    order = np.argsort(-np.bincount(found, minlength=count), kind="stable")
    return np.argsort(order)[found]


if __name__ == "__main__":
    run_command(main)
